/**
 * "Launches" a server that already runs: it is neither started nor stopped. The steps of a launch:
 *
 * 1. Wait until the first server answers correctly, then each of the others, within one deadline.
 * 2. Spread the load over them by their weights, if there are several.
 * 3. Return a predictor whose resources are unknown, and which cannot be stopped.
 */

import type { ReplicaTarget } from '../../../profiler/model/target.ts'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { NeverReadyError, prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import { redactSecrets } from '../../secrets.ts'
import { LaunchError, type Launcher } from '../../types.ts'
import { getAnswerHint } from '../failure.ts'
import { defaultReadyTimeoutS, type UrlTemplate } from '../template.ts'

interface UrlLauncherOptions {
  readonly template: UrlTemplate
  /** Creates the protocol for one of its servers. */
  readonly protocolFor: (url: string) => Protocol
  readonly payload: PayloadSource
}

/** No configuration reaches the server, so that a failure is final for the experiment. */
export const createUrlLauncher = ({
  template,
  protocolFor,
  payload,
}: UrlLauncherOptions): Launcher => ({
  name: 'url',
  launch: async (_configuration, _trialNumber, signal, onWaiting) => {
    signal.throwIfAborted()
    const { url, urls, model, readyTimeoutS = defaultReadyTimeoutS } = template
    const deadlineMs = performance.now() + readyTimeoutS * 1000
    const untilOneServes = (one: string) => {
      const endpoint = {
        protocol: protocolFor(one),
        url: one,
        model,
        payload,
        runsAlready: true,
        onReason: (reason: string) => onWaiting?.(reason, 'loading'),
      }
      return prepareOnceReady(endpoint, deadlineMs - performance.now(), signal)
    }
    try {
      const target = await untilOneServes(url)
      const replicas: ReplicaTarget[] = []
      for (const { url: one, weight } of urls ?? []) {
        const { url: origin, path, headers } = one === url ? target : await untilOneServes(one)
        replicas.push({ url: origin, path, headers, weight })
      }
      return {
        target: replicas.length > 0 ? { ...target, replicas } : target,
        protocol: protocolFor(url).name,
        provenance: 'measured',
        isolation: `${redactSecrets(describeServers(template))} as ${replicas.length > 0 ? 'they run: their resources are' : 'it runs: its resources are'} neither limited nor known`,
        logTail: () => '',
        usage: async () => ({}),
        stop: async () => {},
      }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof NeverReadyError)
        throw new LaunchError(
          error.message,
          'check that the server runs, and check its address and protocol',
          undefined,
          'experiment',
        )
      if (!(error instanceof Error) || error.name !== 'ProtocolError') throw error
      throw new LaunchError(
        `no valid answer: ${error.message}`,
        getAnswerHint(error),
        undefined,
        'experiment',
      )
    }
  },
  sweep: async () => {},
})

/** Describes the server, or all of them with their shares of the load. */
function describeServers({ url, urls }: UrlTemplate): string {
  if (urls === undefined) return url
  const total = urls.reduce((sum, { weight }) => sum + weight, 0)
  return urls.map((one) => `${one.url} (${Math.round((100 * one.weight) / total)} %)`).join(', ')
}
