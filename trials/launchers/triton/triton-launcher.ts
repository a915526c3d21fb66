/**
 * Keeps a Triton server from one trial to the next: where only batching, queue and instances change, the model is reloaded with them through the
 * model control API, which takes the time of loading the model instead of that of starting the server. Anything else that changes (cores, GPU,
 * arguments, environment) restarts it.
 */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/types.ts'
import { configurationKey } from '../../../search/space.ts'
import type { Configuration } from '../../../search/types.ts'
import { InfeasibleError, LaunchError, type Launcher, type Predictor, type Usage } from '../../types.ts'
import { diagnose } from '../diagnosis.ts'
import type { TunedParameter } from '../fill.ts'
import { NeverReadyError, untilServing } from '../readiness.ts'
import { Knobs } from '../server-files/knobs.ts'
import { takenBy } from '../server-files/preset.ts'
import { Enum, type ProtoValue, Text } from '../server-files/text-proto.ts'
import { type TritonTuning, tritonTuning } from '../server-files/triton-files.ts'
import { type CommandTemplate, defaultReadyTimeoutS } from '../template.ts'

interface TritonLauncherOptions {
  readonly template: CommandTemplate
  readonly parameters: readonly TunedParameter[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
}

type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json | undefined }
type ModelConfig = { readonly [field: string]: Json | undefined }

/** A server that runs, and the model's configuration as its repository has it. */
interface Server {
  readonly key: string
  readonly predictor: Predictor
  readonly url: string
  readonly base: ModelConfig
  alive: boolean
}

/** @param inner starts the server with the model as it is */
export const createTritonLauncher = (inner: Launcher, { template, parameters, protocol, payload }: TritonLauncherOptions): Launcher => {
  const { model } = template
  const idle: Server[] = []
  const reloadable = reloadableNames(template, parameters)
  const keyOf = (configuration: Configuration) =>
    configurationKey(Object.fromEntries(Object.entries(configuration).filter(([name]) => !reloadable.has(name))))

  const start = async (key: string, configuration: Configuration, trialNumber: number, signal: AbortSignal): Promise<Server> => {
    // Those that wait hold cores and memory that the new one may need.
    await stopAll(idle.splice(0))
    const predictor = await inner.launch(configuration, trialNumber, signal)
    try {
      if (predictor.target.kind !== 'http') throw new LaunchError('Triton is tuned over HTTP', 'use protocol oip-v2')
      const { url } = predictor.target
      const server = {
        key,
        predictor,
        url,
        base: (await askTriton(url, `/v2/models/${encodeURIComponent(model)}/config`, signal)) as ModelConfig,
        alive: true,
      }
      predictor.died?.then(() => {
        server.alive = false
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
    sweep: (signal, onLeft) => inner.sweep(signal, onLeft),
    close: async () => {
      await stopAll(idle.splice(0))
      await inner.close?.()
    },
    launch: async (configuration, trialNumber, signal) => {
      signal.throwIfAborted()
      const key = keyOf(configuration)
      const at = idle.findIndex((server) => server.key === key)
      const kept = at >= 0
      const server = kept ? idle.splice(at, 1)[0]! : await start(key, configuration, trialNumber, signal)
      const startedMs = performance.now()
      try {
        const gpu = configuration.gpu !== undefined && configuration.gpu !== 'none'
        await reload(server, tritonTuning(new Knobs(configuration), gpu), model, signal)
        const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
        const target = await untilServing({ protocol, url: server.url, model, payload }, timeoutMs, signal)
        const before = await executions(server.url, model, signal)
        if (kept) server.predictor.restartUsage?.()
        const reloadSeconds = (performance.now() - startedMs) / 1000
        return trialOf({ ...server.predictor, target }, kept ? reloadSeconds : undefined, {
          realisedBatch: async () => batchSince(before, await executions(server.url, model, AbortSignal.timeout(2_000))),
          stop: async () => {
            if (server.alive) idle.push(server)
            else await server.predictor.stop()
          },
        })
      } catch (error) {
        // A refused reload leaves the server as it was: the next trial may use it. A server that no longer answers is of no use.
        if (error instanceof InfeasibleError && server.alive) idle.push(server)
        else await server.predictor.stop()
        signal.throwIfAborted()
        if (error instanceof NeverReadyError) throw new InfeasibleError('never-ready', error.message, server.predictor.logPath)
        throw error
      }
    },
  }
}

/** Tuned names that reach the server through its model control alone: no argument, and no placeholder of the template. */
const reloadableNames = (template: CommandTemplate, parameters: readonly TunedParameter[]): ReadonlySet<string> => {
  const texts = JSON.stringify([template.command, template.env, template.files, template.cwd, template.prepare])
  const taken = takenBy(
    'triton',
    parameters.map(({ name }) => name),
  )
  return new Set(
    parameters
      .filter(({ name, category }) => taken.has(name) && category !== 'args' && category !== 'resource' && !texts.includes(`\${${name}}`))
      .map(({ name }) => name),
  )
}

const stopAll = async (servers: readonly Server[]): Promise<void> =>
  void (await Promise.all(servers.map(({ predictor }) => predictor.stop())))

/** One trial's view of a server that outlives it. */
const trialOf = (
  predictor: Predictor,
  reloadSeconds: number | undefined,
  { realisedBatch, stop }: { realisedBatch(): Promise<number | undefined>; stop(): Promise<void> },
): Predictor => {
  let stopped: Promise<void> | undefined
  return {
    ...predictor,
    ...(reloadSeconds !== undefined && { prepared: undefined }),
    isolation: `${predictor.isolation}${reloadSeconds === undefined ? '' : '; the server of the trial before, its model reloaded'}`,
    usage: async (): Promise<Usage> => ({
      ...(await predictor.usage()),
      ...(reloadSeconds !== undefined && { launchSeconds: reloadSeconds, prepareSeconds: undefined }),
      realisedBatch: await realisedBatch(),
    }),
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

/**
 * Loads the model with its repository's configuration and the tuned values over it.
 * @throws InfeasibleError with the server's own words when it does not fit or the server does not take it, LaunchError without model control
 */
const reload = async ({ url, base, predictor }: Server, tuning: TritonTuning, model: string, signal: AbortSignal): Promise<void> => {
  const path = `/v2/repository/models/${encodeURIComponent(model)}/load`
  const body = { parameters: { config: JSON.stringify(tunedConfig(base, tuning)) } }
  try {
    await askTriton(url, path, signal, body)
  } catch (error) {
    if (!(error instanceof TritonRefusal)) throw error
    const cause = diagnose(undefined, error.message, undefined)
    if (cause.kind === 'out-of-memory') throw new InfeasibleError('out-of-memory', error.message, predictor.logPath)
    if (/explicit/i.test(error.message))
      throw new LaunchError(error.message, 'it must run with --model-control-mode=explicit, as it is started here', predictor.logPath)
    throw new InfeasibleError('crashed', error.message, predictor.logPath)
  }
}

/**
 * The model's configuration with the tuned fields. Dynamic batching keeps what the model says of it beside; without batches larger than one it is off.
 * Instances keep their placement, and their number changes.
 */
export const tunedConfig = (base: ModelConfig, tuning: TritonTuning): ModelConfig => {
  const { max_batch_size: batch, dynamic_batching: batching, instance_group: groups } = tuning
  const { dynamic_batching: own, ...rest } = base
  const count = groups?.[0]?.count
  const group = Array.isArray(base.instance_group) ? (base.instance_group as readonly ModelConfig[])[0] : undefined
  return {
    ...rest,
    ...(batch !== undefined && { max_batch_size: batch }),
    ...(batch === undefined
      ? { dynamic_batching: own }
      : batching !== undefined && { dynamic_batching: { ...(own as ModelConfig), ...(json(batching) as ModelConfig) } }),
    ...(count !== undefined && { instance_group: [{ ...(group ?? (json(groups![0]!) as ModelConfig)), count: count as number }] }),
  }
}

/** A message as proto3's JSON, undefined fields left out. */
const json = (value: ProtoValue): Json => {
  if (value instanceof Text) return value.value
  if (value instanceof Enum) return value.name
  if (Array.isArray(value)) return value.map((one: ProtoValue) => json(one))
  if (typeof value !== 'object') return value ?? null
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([field, inner]) => [field, json(inner)]),
  )
}

/** What Triton answers to what it does not do: its own words. */
class TritonRefusal extends Error {}

const askTriton = async (url: string, path: string, signal: AbortSignal, body?: unknown): Promise<unknown> => {
  const response = await fetch(new URL(path, url), {
    signal,
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new LaunchError(
      `Triton does not answer ${path}: ${error instanceof Error ? error.message : String(error)}`,
      'its log says why it ended',
    )
  })
  const text = await readAnswer(response.body)
  if (!response.ok) throw new TritonRefusal(`Triton refused ${path} (status ${response.status}): ${errorIn(text)}`)
  return text === '' ? undefined : JSON.parse(text)
}

const errorIn = (text: string): string => {
  try {
    return String((JSON.parse(text) as { error?: unknown }).error ?? text)
  } catch {
    // Not JSON: the words as they are.
    return text
  }
}

interface Executions {
  readonly inferences: number
  readonly executions: number
}

/** Sums over versions of the statistics extension; undefined where the server has none. */
const executions = async (url: string, model: string, signal: AbortSignal): Promise<Executions | undefined> => {
  try {
    const stats = (await askTriton(url, `/v2/models/${encodeURIComponent(model)}/stats`, signal)) as {
      model_stats: readonly { inference_count: number | string; execution_count: number | string }[]
    }
    const sum = (key: 'inference_count' | 'execution_count') => stats.model_stats.reduce((total, one) => total + Number(one[key]), 0)
    return { inferences: sum('inference_count'), executions: sum('execution_count') }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof TritonRefusal) return undefined
    throw error
  }
}

const batchSince = (before: Executions | undefined, now: Executions | undefined): number | undefined => {
  if (before === undefined || now === undefined || now.executions <= before.executions) return undefined
  return (now.inferences - before.inferences) / (now.executions - before.executions)
}
