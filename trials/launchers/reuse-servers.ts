/**
 * Reuses a running server for the next trial if only run-time values change. Any other change
 * (arguments, environment, a real GPU) starts another server:
 *
 *     start ──► prepare ──► reconfigure ──► in use by a trial ──stop──► idle ──► reconfigure
 *                               │                 │                       │
 *                               └── fails ────────┴── dies ───────────────┴── another start: stopped
 *
 * A server that rejects values and is unchanged (`survivesRejection`) becomes idle instead.
 */

import type { Target } from '../../profiler/model/target.ts'
import { NeverReadyError } from '../../profiler/protocols/until-serving.ts'
import { createKeyWithout } from '../../search/space/space.ts'
import type { Configuration } from '../../search/types.ts'
import {
  InfeasibleError,
  LaunchError,
  type Launcher,
  type OnWaiting,
  type Predictor,
  type PredictorDeath,
  type Usage,
} from '../types.ts'

/** A running server. */
export interface ReusableServer<ServerState> {
  readonly predictor: Predictor
  readonly url: string
  /** Result of `prepareServer`. */
  readonly state: ServerState
}

/** Method of changing the values of a running server. */
interface ChangeMethod<ServerState> {
  /** Parameters that can change without a restart. */
  readonly parameterNames: ReadonlySet<string>
  /** How the reused server was changed: 'reconfigured', 'model reloaded'. */
  readonly changeDescription: string
  /** Whether a server that rejects values is unchanged, so that the next trial may use it. */
  readonly survivesRejection?: boolean
  /** Called once after the start of a server. */
  prepareServer(predictor: Predictor, url: string, signal: AbortSignal): Promise<ServerState>
  /**
   * Called before each trial, including the first. Resolves once the server serves with the values.
   * @param signal also aborts when the server ends
   * @throws InfeasibleError if it rejects the values
   */
  reconfigure(
    server: ReusableServer<ServerState>,
    configuration: Configuration,
    signal: AbortSignal,
  ): Promise<ChangeResult>
}

interface ChangeResult {
  readonly target: Target
  /** Isolation of the server, if it changed. */
  readonly isolation?: string
  /** Usage that only the server itself knows. */
  readUsage?(): Promise<Partial<Usage>>
}

/** @param inner starts servers */
export function reuseServers<ServerState>(
  inner: Launcher,
  method: ChangeMethod<ServerState>,
): Launcher {
  interface RunningServer extends ReusableServer<ServerState> {
    readonly key: string
    /** Aborts when the server ends by itself. */
    readonly ended: AbortSignal
    death?: PredictorDeath
  }
  const idle: RunningServer[] = []
  const setAside = (server: RunningServer) => {
    server.predictor.releaseCores?.()
    idle.push(server)
  }
  const stopIdle = async () =>
    void (await Promise.all(idle.splice(0).map(({ predictor }) => predictor.stop())))

  const start = async (
    key: string,
    configuration: Configuration,
    trialNumber: number,
    signal: AbortSignal,
    onWaiting: OnWaiting | undefined,
  ): Promise<RunningServer> => {
    // Idle servers use cores and memory that the new one may need.
    await stopIdle()
    const predictor = await inner.launch(configuration, trialNumber, signal, onWaiting)
    try {
      if (predictor.target.kind !== 'http')
        throw new LaunchError(
          'a server that trials reuse must be reached over HTTP',
          'use an HTTP protocol',
        )
      const { url } = predictor.target
      const ending = new AbortController()
      const server: RunningServer = {
        key,
        predictor,
        url,
        state: await method.prepareServer(predictor, url, signal),
        ended: ending.signal,
      }
      predictor.died?.then((death) => {
        server.death = death
        ending.abort(new Error(death.what))
        const at = idle.indexOf(server)
        if (at >= 0) idle.splice(at, 1)
      })
      return server
    } catch (error) {
      await predictor.stop()
      throw error
    }
  }

  return {
    name: inner.name,
    changesRunning: method.parameterNames,
    sweep: (signal, onLeft) => inner.sweep(signal, onLeft),
    close: async () => {
      await stopIdle()
      await inner.close?.()
    },
    launch: async (configuration, trialNumber, signal, onWaiting) => {
      signal.throwIfAborted()
      const key = createKeyWithout(configuration, method.parameterNames)
      const at = idle.findIndex((server) => server.key === key)
      const isReused = at >= 0
      const server = isReused
        ? idle.splice(at, 1)[0]!
        : await start(key, configuration, trialNumber, signal, onWaiting)
      const startedMs = performance.now()
      try {
        const { target, isolation, readUsage } = await method.reconfigure(
          server,
          configuration,
          AbortSignal.any([signal, server.ended]),
        )
        if (isReused) server.predictor.restartUsage?.()
        const changeSeconds = isReused ? (performance.now() - startedMs) / 1000 : undefined
        const stop = async () => {
          if (server.death !== undefined) return server.predictor.stop()
          setAside(server)
        }
        const predictor = {
          ...server.predictor,
          ...(isolation !== undefined && { isolation }),
          target: addProcesses(target, server.predictor),
        }
        return createTrialView(predictor, method.changeDescription, changeSeconds, {
          readUsage,
          stop,
        })
      } catch (error) {
        const { death } = server
        // A server that no longer answers is stopped.
        if (error instanceof InfeasibleError && death === undefined && method.survivesRejection)
          setAside(server)
        else await server.predictor.stop()
        signal.throwIfAborted()
        if (death)
          throw new InfeasibleError(
            death.outOfMemory ? 'out-of-memory' : 'crashed',
            death.what,
            server.predictor.logPath,
          )
        if (error instanceof NeverReadyError)
          throw new InfeasibleError('never-ready', error.message, server.predictor.logPath)
        throw error
      }
    },
  }
}

/** Adds the processes of the started server to the target. */
const addProcesses = (target: Target, { target: startedTarget }: Predictor): Target =>
  target.kind === 'http' && startedTarget.kind === 'http' && startedTarget.serverPids
    ? { ...target, serverPids: startedTarget.serverPids }
    : target

/**
 * Creates one trial's view of a server that outlives it. The launch of such a trial is the change
 * of values; the duration of the server's start is reported as startSeconds.
 * @param changeSeconds absent: the server was started for this trial
 */
function createTrialView(
  predictor: Predictor,
  changeDescription: string,
  changeSeconds: number | undefined,
  { readUsage, stop }: Pick<ChangeResult, 'readUsage'> & { stop(): Promise<void> },
): Predictor {
  let stopped: Promise<void> | undefined
  return {
    ...predictor,
    ...(changeSeconds !== undefined && { prepared: undefined }),
    isolation: `${predictor.isolation}${changeSeconds === undefined ? '' : `; server reused, ${changeDescription}`}`,
    usage: async (): Promise<Usage> => {
      const usage = await predictor.usage()
      return {
        ...usage,
        ...(changeSeconds !== undefined && {
          launchSeconds: changeSeconds,
          startSeconds: usage.launchSeconds,
          prepareSeconds: undefined,
        }),
        ...(await readUsage?.()),
      }
    },
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}
