/**
 * Reuses user's servers that accept values while running: a command sets them, once the server
 * answers and before each trial.
 */
import { execFile } from 'node:child_process'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import { InfeasibleError, LaunchError, type Launcher } from '../../types.ts'
import { fillReconfigure, listReconfigurable } from '../fill.ts'
import type { TunedParameter } from '../placeholders.ts'
import { reuseServers } from '../reuse-servers.ts'
import { type CommandTemplate, defaultReadyTimeoutS } from '../template.ts'

interface ReconfigureOptions {
  readonly template: CommandTemplate
  readonly parameters: readonly TunedParameter[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
}

/** Characters of the command's output in messages. */
const tailLength = 300

/** @param inner starts servers; returned as it is if no parameter can be set at run time */
export function reuseByReconfigure(
  inner: Launcher,
  { template, parameters, protocol, payload }: ReconfigureOptions,
): Launcher {
  const words = template.reconfigure
  if (words === undefined) return inner
  const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
  return reuseServers<undefined>(inner, {
    parameterNames: listReconfigurable(template, parameters),
    changeDescription: 'reconfigured',
    prepareServer: async () => undefined,
    reconfigure: async ({ predictor, url }, configuration, signal) => {
      const { hostname, port } = new URL(url)
      const [program, ...args] = fillReconfigure(words, configuration, {
        host: hostname,
        port,
        model: template.model,
      })
      await runReconfigure(program!, args, {
        cwd: template.cwd,
        timeoutMs,
        signal,
        logPath: predictor.logPath,
      })
      return {
        target: await prepareOnceReady(
          { protocol, url, model: template.model, payload },
          timeoutMs,
          signal,
        ),
      }
    },
  })
}

interface RunOptions {
  readonly cwd: string | undefined
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly logPath: string | undefined
}

/**
 * @throws LaunchError for a missing program, InfeasibleError if it fails or takes too long, the
 * signal's reason
 */
async function runReconfigure(
  program: string,
  args: readonly string[],
  { cwd, timeoutMs, signal, logPath }: RunOptions,
): Promise<void> {
  const ended = await new Promise<{
    readonly failed?: Error & { readonly code?: unknown; readonly killed?: boolean }
    readonly output: string
  }>((resolve) => {
    const options = { cwd, signal, timeout: timeoutMs, killSignal: 'SIGKILL' as const }
    execFile(program, args, options, (failed, stdout, stderr) =>
      resolve({
        ...(failed && { failed: failed as Error }),
        output: `${stdout}\n${stderr}`.trim().slice(-tailLength),
      }),
    )
  })
  signal.throwIfAborted()
  const { failed, output } = ended
  if (failed === undefined) return
  if (failed.code === 'ENOENT')
    throw new LaunchError(
      `reconfigure: there is no program ${program}`,
      'install it, or give its path',
      logPath,
      'experiment',
    )
  const why = failed.killed
    ? `took longer than ${timeoutMs / 1000} s`
    : `ended with ${String(failed.code)}`
  throw new InfeasibleError(
    'crashed',
    `reconfigure ${why}${output === '' ? '' : `: ${output}`}`,
    logPath,
  )
}
