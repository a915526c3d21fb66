/**
 * Reuses a Triton server for trials that differ only in batching, queue and instances: of its one
 * model, or of each model that an ensemble or BLS model calls. The steps of a launch, as
 * `reuseServers` calls them:
 *
 * 1. Start the server with the models as their repository has them, or take the idle one.
 * 2. After a start, read the models' own configurations, and lower the batches of ensembles to those
 *    that trials set for the models that they call (`prepareServer`).
 * 3. Write the tuned fields over the configurations, and load each model that they change through
 *    the model control API (`loadTuned`).
 * 4. Wait until the entry serves, and remember the counters of the models.
 *
 * Any other change (cores, GPU, arguments, environment) starts another server.
 */
import { isDeepStrictEqual } from 'node:util'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import type { Configuration } from '../../../search/types.ts'
import { pickStage } from '../../pipeline/stage-configuration.ts'
import { addStageToError } from '../../pipeline/stage-error.ts'
import { Knobs } from '../../servers/knobs.ts'
import { isStageParameter, selectServerParameters } from '../../servers/preset.ts'
import type { TritonModel } from '../../servers/server-start.ts'
import { Enum, type ProtoValue, Text } from '../../servers/text-proto.ts'
import { applyTuning, createTritonTuning, type ModelConfig } from '../../servers/triton.ts'
import { InfeasibleError, LaunchError, type Launcher } from '../../types.ts'
import { diagnose } from '../diagnosis.ts'
import { getModelLoadPath } from '../model-loading.ts'
import type { TunedParameter } from '../placeholders.ts'
import { type ReusableServer, reuseServers } from '../reuse-servers.ts'
import { type CommandTemplate, defaultReadyTimeoutS } from '../template.ts'
import { ModelUsageMeter } from './model-usage.ts'
import { requestTriton, TritonRefusal } from './triton-api.ts'

interface TritonLauncherOptions {
  readonly template: CommandTemplate
  readonly parameters: readonly TunedParameter[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
}

/** A model of a running server. */
interface LoadedModel {
  /** As the repository has it. */
  readonly base: ModelConfig
  /** As it is loaded. */
  current: ModelConfig
}
type LoadedModels = ReadonlyMap<string, LoadedModel>
type Server = ReusableServer<LoadedModels>

/** @param inner starts the server with the unmodified models */
export const createTritonLauncher = (
  inner: Launcher,
  { template, parameters, protocol, payload }: TritonLauncherOptions,
): Launcher => {
  const { model: entry } = template
  const models: readonly TritonModel[] = template.server?.models ?? [{ name: entry }]
  const hasStages = template.server?.models !== undefined
  return reuseServers<LoadedModels>(inner, {
    parameterNames: listReloadable(template, parameters),
    changeDescription: models.length > 1 ? 'models reloaded' : 'model reloaded',
    // A refused reload leaves the server as it was.
    survivesRejection: true,
    prepareServer: (_predictor, url, signal) => prepareModels(url, models, signal),
    reconfigure: async (server, configuration, signal) => {
      const kind = isOnGpu(configuration) ? 'KIND_GPU' : 'KIND_CPU'
      for (const { name, stage, steps } of models) {
        if (steps !== undefined) continue
        const knobs = stage === undefined ? configuration : pickStage(configuration, stage)
        await loadTuned(server, name, knobs, kind, signal).catch((error: unknown) => {
          throw stage === undefined ? error : addStageToError(error, stage)
        })
      }
      const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
      const target = await prepareOnceReady(
        { protocol, url: server.url, model: entry, payload },
        timeoutMs,
        signal,
      )
      const configs = new Map([...server.state].map(([name, { current }]) => [name, current]))
      const meter = await ModelUsageMeter.start({ url: server.url, entry, models, configs }, signal)
      return hasStages
        ? {
            target: { ...target, observeLoad: () => meter.observeLoad() },
            readUsage: () => meter.readStages(),
          }
        : { target, readUsage: () => meter.readBatch() }
    },
  })
}

const isOnGpu = ({ gpu }: Configuration): boolean => gpu !== undefined && gpu !== 'none'

/**
 * Reads the configurations of the models. An ensemble must not allow larger batches than the models
 * that it calls, so its own are lowered once to the lowest of any trial: loading an ensemble later
 * would load the models that it calls as the repository has them.
 */
async function prepareModels(
  url: string,
  models: readonly TritonModel[],
  signal: AbortSignal,
): Promise<LoadedModels> {
  const loaded = new Map<string, LoadedModel>()
  for (const { name } of models) {
    const path = `/v2/models/${encodeURIComponent(name)}/config`
    const base = (await requestTriton(url, path, signal)) as ModelConfig
    loaded.set(name, { base, current: base })
  }
  for (const { name, steps = [] } of models) {
    const model = loaded.get(name)!
    const limit = Math.min(...steps.map((step) => findMinBatch(step, models, loaded)))
    if (!(Number(model.base.max_batch_size) > limit)) continue
    model.current = { ...model.base, max_batch_size: limit }
    await loadConfig(url, name, model.current, signal)
  }
  return loaded
}

/** The smallest maximum of its batches in any trial; infinite for a model without batches. */
function findMinBatch(name: string, models: readonly TritonModel[], loaded: LoadedModels): number {
  const { steps = [], minBatchSize } = models.find((one) => one.name === name)!
  const own = minBatchSize ?? Number(loaded.get(name)!.base.max_batch_size ?? 0)
  return Math.min(
    own > 0 ? own : Number.POSITIVE_INFINITY,
    ...steps.map((step) => findMinBatch(step, models, loaded)),
  )
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
          (serverParameters.has(name) || isStageParameter(template.server!, name)) &&
          category !== 'args' &&
          category !== 'resource' &&
          !texts.includes(`\${${name}}`),
      )
      .map(({ name }) => name),
  )
}

/**
 * Loads a model with its repository's configuration and the tuned values over it, unless it is
 * loaded so already.
 * @throws InfeasibleError with the server's own words when it does not fit or the server does not
 * take it, LaunchError without model control
 */
async function loadTuned(
  { url, state, predictor }: Server,
  name: string,
  knobs: Configuration,
  kind: string,
  signal: AbortSignal,
): Promise<void> {
  const model = state.get(name)!
  const tuning = convertToJson(createTritonTuning(new Knobs(knobs))) as ModelConfig
  const config = applyTuning(model.base, tuning, kind)
  if (isDeepStrictEqual(config, model.current)) return
  try {
    await loadConfig(url, name, config, signal)
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
  model.current = config
}

const loadConfig = (url: string, name: string, config: ModelConfig, signal: AbortSignal) =>
  requestTriton(url, getModelLoadPath(name), signal, {
    parameters: { config: JSON.stringify(config) },
  })

type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json | undefined }

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
