/**
 * NVIDIA Triton: how it is started, and the tuned part of a ModelConfig (inference.ModelConfig of
 * triton-inference-server/common, model_config.proto).
 */
import type { Knobs } from './knobs.ts'
import type { OwnSettings } from './own-settings.ts'
import type { ServerPlace, ServerPreset, ServerStart } from './server-start.ts'
import { Enum, mergeTextProto, type ProtoMessage, parseTextProto } from './text-proto.ts'

/** Field names of the message; `Enum` values name a kind. */
interface TritonTuning extends ProtoMessage {
  readonly max_batch_size: number | undefined
  readonly dynamic_batching: ProtoMessage | undefined
  /** Number and kind of the instances of each group; undefined: as the model has them. */
  readonly instance_group: ProtoMessage | undefined
}

/** Tuned fields of one model; untuned ones are undefined. */
export function createTritonTuning(knobs: Knobs): TritonTuning {
  const batch = knobs.number('maxBatchSize', 'batchSize')
  const preferred = knobs.number('preferredBatchSize')
  const delayMs = knobs.number('maxDelayMs', 'maxQueueDelayMs', 'batchDelayMs')
  const delayMicros =
    knobs.number('maxQueueDelayMicroseconds') ??
    (delayMs === undefined ? undefined : Math.round(delayMs * 1000))
  const count = knobs.number('instances', 'instanceCount')
  const kind = knobs.value('instanceKind')
  const queue = knobs.number('queueLimit', 'maxQueueSize')
  // Without this block Triton runs each request as it comes, whatever its largest batch.
  const batching =
    batch === undefined ? (delayMicros ?? preferred ?? queue) !== undefined : batch > 1
  return {
    max_batch_size: batch,
    dynamic_batching: batching
      ? {
          preferred_batch_size: preferred === undefined ? undefined : [preferred],
          max_queue_delay_microseconds: delayMicros,
          default_queue_policy: queue === undefined ? undefined : { max_queue_size: queue },
        }
      : undefined,
    instance_group:
      (count ?? kind) === undefined
        ? undefined
        : { count, kind: kind === undefined ? undefined : new Enum(String(kind)) },
  }
}

/** Values of `instanceKind`. */
export const instanceKinds = ['KIND_CPU', 'KIND_GPU'] as const

/** A ModelConfig in text format or as JSON, whose enums are texts. */
export type ModelConfig = { readonly [field: string]: unknown }

/**
 * The model's configuration with the tuned fields. Other fields of dynamic batching keep their
 * values; without batches larger than one it is off. Instances keep their placement, unless their
 * kind is tuned.
 * @param kind kind of the instances where the model has no instance group
 */
export function applyTuning(
  base: ModelConfig,
  tuning: { readonly [field in keyof TritonTuning]?: unknown },
  kind: unknown,
): ModelConfig {
  const { dynamic_batching: ownBatching, ...rest } = base
  const { max_batch_size: batch, dynamic_batching: batching } = tuning
  const group = tuning.instance_group as ModelConfig | undefined
  const isOff = batch !== undefined && batching === undefined
  const allBatching =
    batching === undefined
      ? ownBatching
      : mergeConfigs(ownBatching as ModelConfig | undefined, batching as ModelConfig)
  const ownGroups = [base.instance_group ?? []].flat() as unknown as readonly ModelConfig[]
  return {
    ...rest,
    ...(batch !== undefined && { max_batch_size: batch }),
    ...(!isOff && allBatching !== undefined && { dynamic_batching: allBatching }),
    ...(group !== undefined && {
      instance_group: (ownGroups.length > 0 ? ownGroups : [{ count: undefined, kind }]).map((own) =>
        placeInstances(own, group),
      ),
    }),
  }
}

/** An instance group with the tuned number and kind: on CPU it names no GPUs. */
function placeInstances(own: ModelConfig, tuned: ModelConfig): ModelConfig {
  const group = mergeConfigs(own, tuned)
  const { kind } = tuned
  if (kind === undefined || (kind instanceof Enum ? kind.name : kind) === 'KIND_GPU') return group
  const { gpus: _, ...onCpu } = group
  return onCpu
}

/** Fields of both, recursively; defined fields of `set` win. */
const mergeConfigs = (base: ModelConfig | undefined, set: ModelConfig): ModelConfig => {
  const both: Record<string, unknown> = { ...base }
  for (const [field, value] of Object.entries(set)) {
    if (value === undefined) continue
    const before = both[field]
    both[field] = isGroup(before) && isGroup(value) ? mergeConfigs(before, value) : value
  }
  return both
}

const isGroup = (one: unknown): one is ModelConfig =>
  typeof one === 'object' && one !== null && !Array.isArray(one) && !(one instanceof Enum)

/**
 * The model's own config.pbtxt with the tuned fields; everything else stands as it was written.
 * @throws TextProtoError
 */
export function tuneConfigText(text: string, tuning: TritonTuning): string {
  const tuned = applyTuning(parseTextProto(text), tuning, undefined) as ProtoMessage
  const { max_batch_size, dynamic_batching } = tuning
  const isOff = max_batch_size !== undefined && dynamic_batching === undefined
  return mergeTextProto(text, {
    max_batch_size,
    // An empty list removes the field.
    dynamic_batching: isOff ? [] : dynamic_batching && tuned.dynamic_batching,
    instance_group: tuning.instance_group && tuned.instance_group,
  })
}

/**
 * Triton loads the model as its repository has it. The tuned values follow through the model
 * control API, for which it is started in explicit mode.
 */
export function startTriton(
  { modelPath, metricsPort, models = [] }: ServerPreset,
  knobs: Knobs,
  { host, port, model }: ServerPlace,
  own: OwnSettings,
): ServerStart {
  createTritonTuning(knobs)
  const repository = modelPath.replace(/[/\\][^/\\]*[/\\]*$/, '') || '/'
  // BLS models load no others, so every model is named.
  const loaded = models.length > 0 ? models.map(({ name }) => name) : [model]
  const args = [
    `--model-repository=${repository}`,
    '--model-control-mode=explicit',
    ...loaded.map((name) => `--load-model=${name}`),
    `--http-address=${host}`,
    `--http-port=${port}`,
    ...(own.has('--allow-grpc', '--grpc-port') ? [] : ['--allow-grpc=false']),
    ...createMetricsFlags(own, metricsPort),
  ]
  return { args, files: [], replaced: [] }
}

/** None if the user's command has some; else on the port that metrics are read on, or off. */
function createMetricsFlags(own: OwnSettings, port: number | undefined): string[] {
  if (own.has('--allow-metrics', '--metrics-port')) return []
  return port === undefined
    ? ['--allow-metrics=false']
    : ['--allow-metrics=true', `--metrics-port=${port}`]
}
