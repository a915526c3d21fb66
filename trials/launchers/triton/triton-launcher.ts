/**
 * Reuses a Triton server for trials that differ only in batching, queue and instances. The steps of
 * a launch, as `reuseServers` calls them:
 *
 * 1. Start the server with the model as its repository has it, or take the idle one.
 * 2. After a start, read the model's own configuration (`prepareServer`).
 * 3. Write the tuned fields over it, and load the model with them through the model control API
 *    (`reload`).
 * 4. Wait until the model serves, and remember its counters for the mean batch of the trial.
 *
 * Any other change (cores, GPU, arguments, environment) starts another server.
 */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import { Knobs } from '../../servers/knobs.ts'
import { selectServerParameters } from '../../servers/preset.ts'
import { Enum, type ProtoValue, Text } from '../../servers/text-proto.ts'
import { createTritonTuning, type TritonTuning } from '../../servers/triton.ts'
import { InfeasibleError, LaunchError, type Launcher } from '../../types.ts'
import { diagnose } from '../diagnosis.ts'
import { getModelLoadPath, readErrorMessage } from '../model-loading.ts'
import type { TunedParameter } from '../placeholders.ts'
import { type ReusableServer, reuseServers } from '../reuse-servers.ts'
import { type CommandTemplate, defaultReadyTimeoutS } from '../template.ts'

interface TritonLauncherOptions {
  readonly template: CommandTemplate
  readonly parameters: readonly TunedParameter[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
}

type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }
type ModelConfig = { readonly [field: string]: Json | undefined }

/** A running server, with the model's configuration as its repository has it. */
type Server = ReusableServer<ModelConfig>

/** @param inner starts the server with the unmodified model */
export const createTritonLauncher = (
  inner: Launcher,
  { template, parameters, protocol, payload }: TritonLauncherOptions,
): Launcher => {
  const { model } = template
  return reuseServers<ModelConfig>(inner, {
    parameterNames: listReloadable(template, parameters),
    changeDescription: 'model reloaded',
    // A refused reload leaves the server as it was.
    survivesRejection: true,
    prepareServer: async (_predictor, url, signal) =>
      (await requestTriton(
        url,
        `/v2/models/${encodeURIComponent(model)}/config`,
        signal,
      )) as ModelConfig,
    reconfigure: async (server, configuration, signal) => {
      const gpu = configuration.gpu !== undefined && configuration.gpu !== 'none'
      await reload(server, createTritonTuning(new Knobs(configuration), gpu), model, signal)
      const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
      const target = await prepareOnceReady(
        { protocol, url: server.url, model, payload },
        timeoutMs,
        signal,
      )
      const before = await readExecutions(server.url, model, signal)
      return {
        target,
        realisedBatch: async () =>
          computeBatchSince(
            before,
            await readExecutions(server.url, model, AbortSignal.timeout(2_000)),
          ),
      }
    },
  })
}

/** Parameters that reach the server only through model control: no argument, no placeholder. */
const listReloadable = (
  template: CommandTemplate,
  parameters: readonly TunedParameter[],
): ReadonlySet<string> => {
  const texts = JSON.stringify([
    template.command,
    template.env,
    template.files,
    template.cwd,
    template.prepare,
  ])
  const serverParameters = selectServerParameters(
    'triton',
    parameters.map(({ name }) => name),
  )
  return new Set(
    parameters
      .filter(
        ({ name, category }) =>
          serverParameters.has(name) &&
          category !== 'args' &&
          category !== 'resource' &&
          !texts.includes(`\${${name}}`),
      )
      .map(({ name }) => name),
  )
}

/**
 * Loads the model with its repository's configuration and the tuned values over it.
 * @throws InfeasibleError with the server's own words when it does not fit or the server does not
 * take it, LaunchError without model control
 */
const reload = async (
  { url, state, predictor }: Server,
  tuning: TritonTuning,
  model: string,
  signal: AbortSignal,
): Promise<void> => {
  const body = { parameters: { config: JSON.stringify(applyTuning(state, tuning)) } }
  try {
    await requestTriton(url, getModelLoadPath(model), signal, body)
  } catch (error) {
    if (!(error instanceof TritonRefusal)) throw error
    const cause = diagnose(undefined, error.message, undefined)
    if (cause.kind === 'out-of-memory')
      throw new InfeasibleError('out-of-memory', error.message, predictor.logPath)
    if (/explicit/i.test(error.message))
      throw new LaunchError(
        error.message,
        'start Triton with --model-control-mode=explicit, as tune does',
        predictor.logPath,
      )
    throw new InfeasibleError('crashed', error.message, predictor.logPath)
  }
}

/**
 * The model's configuration with the tuned fields. Other fields of dynamic batching keep their
 * values; without batches larger than one it is off. Instances keep their placement, and only their
 * number changes.
 */
export const applyTuning = (base: ModelConfig, tuning: TritonTuning): ModelConfig => {
  const { max_batch_size: batch, dynamic_batching: batching, instance_group: groups } = tuning
  const { dynamic_batching: ownBatching, ...rest } = base
  const count = groups?.[0]?.count
  const ownGroups = Array.isArray(base.instance_group)
    ? (base.instance_group as readonly ModelConfig[])
    : []
  const isOff = batch !== undefined && batching === undefined
  return {
    ...rest,
    ...(batch !== undefined && { max_batch_size: batch }),
    ...(!isOff && {
      dynamic_batching:
        batching === undefined
          ? ownBatching
          : mergeConfigs(ownBatching as ModelConfig, convertToJson(batching) as ModelConfig),
    }),
    ...(count !== undefined && {
      instance_group: (ownGroups.length > 0
        ? ownGroups
        : [convertToJson(groups![0]!) as ModelConfig]
      ).map((group) => ({ ...group, count: count as number })),
    }),
  }
}

/** Fields of both, recursively; `set` wins. */
const mergeConfigs = (base: ModelConfig | undefined, set: ModelConfig): ModelConfig => {
  const both: Record<string, Json | undefined> = { ...base }
  for (const [field, value] of Object.entries(set)) {
    const isGroup = (one: unknown): one is ModelConfig =>
      typeof one === 'object' && one !== null && !Array.isArray(one)
    const before = both[field]
    both[field] = isGroup(before) && isGroup(value) ? (mergeConfigs(before, value) as Json) : value
  }
  return both
}

/** A message as proto3's JSON, undefined fields left out. */
const convertToJson = (value: ProtoValue): Json => {
  if (value instanceof Text) return value.value
  if (value instanceof Enum) return value.name
  if (Array.isArray(value)) return value.map((one: ProtoValue) => convertToJson(one))
  if (typeof value !== 'object') return value ?? null
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([field, inner]) => [field, convertToJson(inner)]),
  )
}

/** Triton refused a request; the message is its own. */
class TritonRefusal extends Error {}

const requestTriton = async (
  url: string,
  path: string,
  signal: AbortSignal,
  body?: unknown,
): Promise<unknown> => {
  const response = await fetch(new URL(path, url), {
    signal,
    ...(body !== undefined && {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new LaunchError(
      `Triton does not answer ${path}: ${error instanceof Error ? error.message : String(error)}`,
      'see its log for the reason',
    )
  })
  const text = await readAnswer(response.body)
  if (!response.ok)
    throw new TritonRefusal(
      `Triton refused ${path} (status ${response.status}): ${readErrorMessage(text)}`,
    )
  return text === '' ? undefined : JSON.parse(text)
}

interface Executions {
  readonly inferences: number
  readonly executions: number
}

/** Sums over versions of the statistics extension; undefined if the server has none. */
const readExecutions = async (
  url: string,
  model: string,
  signal: AbortSignal,
): Promise<Executions | undefined> => {
  try {
    const stats = (await requestTriton(
      url,
      `/v2/models/${encodeURIComponent(model)}/stats`,
      signal,
    )) as {
      model_stats: readonly { inference_count: number | string; execution_count: number | string }[]
    }
    const sum = (key: 'inference_count' | 'execution_count') =>
      stats.model_stats.reduce((total, one) => total + Number(one[key]), 0)
    return { inferences: sum('inference_count'), executions: sum('execution_count') }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof TritonRefusal) return undefined
    throw error
  }
}

const computeBatchSince = (
  before: Executions | undefined,
  now: Executions | undefined,
): number | undefined => {
  if (before === undefined || now === undefined || now.executions <= before.executions)
    return undefined
  return (now.inferences - before.inferences) / (now.executions - before.executions)
}
