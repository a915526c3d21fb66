/** "Launches" a server that runs already: measured as it is, never started, never stopped. */
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/types.ts'
import { withoutSecrets } from '../../secrets.ts'
import { LaunchError, type Launcher } from '../../types.ts'
import { NeverReadyError, untilServing } from '../readiness.ts'
import { defaultReadyTimeoutS, type UrlTemplate } from '../template.ts'

interface UrlLauncherOptions {
  readonly template: UrlTemplate
  /** What speaks the template's protocol. */
  readonly protocol: Protocol
  readonly payload: PayloadSource
}

/** No configuration reaches the server: one whose configuration is empty or fixed is the only one that makes sense, and what fails with it fails again. */
export const createUrlLauncher = ({ template, protocol, payload }: UrlLauncherOptions): Launcher => ({
  name: 'url',
  launch: async (_configuration, _trialNumber, signal) => {
    signal.throwIfAborted()
    const { url, model, readyTimeoutS = defaultReadyTimeoutS } = template
    try {
      const target = await untilServing({ protocol, url, model, payload, runsAlready: true }, readyTimeoutS * 1000, signal)
      return {
        target,
        protocol: protocol.name,
        provenance: 'measured',
        isolation: `${withoutSecrets(url)} as it runs: nothing about it is held or known`,
        logTail: () => '',
        usage: async () => ({}),
        stop: async () => {},
      }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof NeverReadyError)
        throw new LaunchError(error.message, 'does it run, and is this its address and protocol?', undefined, 'experiment')
      if (!(error instanceof Error) || error.name !== 'ProtocolError') throw error
      const hint =
        'hint' in error && typeof error.hint === 'string' ? error.hint : 'does the payload fit the model, and the protocol the server?'
      throw new LaunchError(`no good answer: ${error.message}`, hint, undefined, 'experiment')
    }
  },
  sweep: async () => {},
})
