/**
 * The schema of the experiment file. What people write goes in ('50ms', '20%', '1..32'); base units
 * come out: durations in ms, rates per second, shares and percentiles 0-1, money in $, under the
 * same keys.
 */

import { z } from 'zod'
import { categoryNames } from '../../../search/categories.ts'
import { defaultKind, kindsAsking, objectiveKinds } from '../../../search/objective.ts'
import { samplerNames } from '../../../search/samplers/sampler-names.ts'
import { draSharings } from '../../../trials/launchers/kubernetes/dra.ts'
import { gpuSchemes } from '../../../trials/launchers/kubernetes/gpu-selection.ts'
import { providerNames } from '../../../trials/prices/providers.ts'
import { parseShorthand, type Values } from '../flags/shorthand.ts'
import { backends, defaults, deviceChoices, loadOrigins } from '../names.ts'
import { parseItems } from '../settings/payload-settings.ts'
import { parseLengths } from '../settings/prompt-settings.ts'
import { expectation, golden } from './answer-schema.ts'
import { arrivals } from './arrivals-schema.ts'
import { metrics } from './metric-schema.ts'
import { send } from './output-schema.ts'
import { predictor } from './predictor-schema.ts'
import { choice, count, duration, money, quantity, rate, share, text } from './schema-parts.ts'
import { classSlo, slo } from './slo-schema.ts'
import { warmUp } from './warm-up-schema.ts'

const modelKeys = z.strictObject({
  name: text('a name').optional().describe('the name it is served under, e.g. bert'),
  architecture: text('an architecture')
    .optional()
    .describe(
      'architecture of the built-in predictor and the device model, or a file of its dimensions (Hugging Face config.json, or YAML), relative to this file; default: the name',
    ),
  path: text('a path')
    .optional()
    .describe(
      'your own model: a folder or file, relative to this file; default: the architecture with seeded weights',
    ),
  version: quantity(String, 'a version')
    .optional()
    .describe('version folder to serve, default the latest'),
})
type ModelEntry = z.output<typeof modelKeys>
const model = z.union([text('the name of a model').transform(readModel), modelKeys], {
  error: 'expected the name of a model, or {name, architecture, path, version}',
})

/** 'bert', 'models/mine', 'mine.onnx', 'mine.gguf', 'mine/config.json' (dimensions, no weights). */
function readModel(name: string): ModelEntry {
  if (isDimensionsFile(name)) return { architecture: name }
  return /[/\\]|\.(onnx|gguf)$/.test(name) ? { path: name } : { name }
}

/**
 * Whether a model is read as a name where an experiment file says no more of it, and not as a path.
 */
export const isModelName = (model: string): boolean => 'name' in readModel(model)

/** Whether an architecture is a file of dimensions rather than a name. */
export const isDimensionsFile = (architecture: string): boolean =>
  /\.(json|ya?ml)$/i.test(architecture)

const scalar = z.union([z.number(), z.string()], { error: 'expected a number or a text' })
const parameterKeys = z.strictObject({
  kind: choice(['int', 'float', 'ordinal', 'categorical'], 'a kind')
    .optional()
    .describe('default: what the values look like'),
  values: z
    .union(
      [
        z
          .array(scalar)
          .min(1, { error: 'expected at least one value' })
          .transform((values): Values => ({ values })),
        quantity(parseShorthand, "values such as 1..32 or '1, 2, 4'"),
      ],
      { error: 'expected values such as [1, 2, 4] or 1..32' },
    )
    .optional()
    .describe('a list or a short form, e.g. [1, 2, 4] or 1..32'),
  min: scalar.optional().describe('least value of a range'),
  max: scalar.optional().describe('greatest value of a range'),
  step: z
    .number({ error: 'expected a number' })
    .positive({ error: 'must be more than 0' })
    .optional()
    .describe('distance of two values of a range, default 1 for int'),
  factor: z
    .number({ error: 'expected a number' })
    .gt(1, { error: 'must be more than 1' })
    .optional()
    .describe('ratio of two values, e.g. 2 for powers of two'),
  scale: choice(['linear', 'log'], 'a scale')
    .optional()
    .describe('how far apart values are for the search'),
  category: choice(categoryNames, 'a category')
    .optional()
    .describe('how the value reaches the predictor'),
  when: text('a condition')
    .optional()
    .describe("the parameter exists only while this holds, e.g. gpu != 'T4'"),
  monotone: choice(['up', 'down'], 'a direction')
    .optional()
    .describe('certain knowledge: more of it never lowers (up) or never raises (down) the rate'),
  concurrency: z
    .boolean({ error: 'expected true or false' })
    .optional()
    .describe(
      'how many requests are served at once (a batch size, a number of processes): rate and latency both rise with it',
    ),
  features: z
    .record(z.string(), z.array(z.number()), { error: 'expected value → list of numbers' })
    .optional()
    .describe('categorical: known numbers that place the values, e.g. [ln bandwidth, ln FLOP/s]'),
})

/** A parameter as written: `values`, or a range, and what else is said of it. */
export interface ParameterEntry extends Omit<z.output<typeof parameterKeys>, 'values'> {
  readonly values?: readonly (number | string)[]
}
const parameterObject = parameterKeys.transform(
  ({ values, ...rest }): ParameterEntry => ({ ...rest, ...values }),
)

const parameter = z.union(
  [
    quantity<ParameterEntry>(parseShorthand, "values such as 1..32, '1, 2, 4' or 8"),
    z
      .array(scalar)
      .min(1, { error: 'expected at least one value' })
      .transform((values): ParameterEntry => ({ values })),
    parameterObject,
  ],
  {
    error:
      'expected values such as [1, 2, 4] or 1..32, or {kind, min, max, step, values, category, when}',
  },
)

const promptClass = z.strictObject({
  share: share.describe('of all requests, e.g. 70%'),
  inputTokens: quantity(parseLengths, 'a length in tokens'),
  outputTokens: quantity(parseLengths, 'a length in tokens'),
  slo: classSlo
    .optional()
    .describe('limits of its own, e.g. {ttft: 300ms, tpot: 30ms}; default: those of `slo`'),
})

const payloadKeys = z.strictObject({
  file: text('a path')
    .optional()
    .describe(
      'JSON Lines (one request body a line), .txt (one text a line), a folder of JPEG and PNG files, or conversations (ShareGPT)',
    ),
  count: count(1, 'how many different bodies')
    .optional()
    .describe(
      'how many different bodies are made, default 64; of a file of texts as many as it takes',
    ),
  items: quantity(parseItems, 'a number of items')
    .optional()
    .describe(
      "items of one request: 4, 1..16, '1:70, 8:20, 32:10' (weights) or lognormal:4,0.6; default 1, or as the trace says",
    ),
  inputTokens: quantity(parseLengths, 'a length in tokens')
    .optional()
    .describe('openai: 512, 100..500, normal:512,128 or lognormal:120,0.9 (default)'),
  outputTokens: quantity(parseLengths, 'a length in tokens')
    .optional()
    .describe('openai: likewise, default lognormal:160,0.7'),
  classes: z
    .record(text('a name'), promptClass, {
      error: 'expected name: {share, inputTokens, outputTokens, slo} pairs',
    })
    .optional()
    .describe(
      'openai: kinds of requests side by side, name → {share, inputTokens, outputTokens, slo}, e.g. {chat: {share: 70%, inputTokens: 300, outputTokens: 200, slo: {ttft: 300ms}}, ...}; each must keep the percentile of `slo` by itself',
    ),
  sharedPrefixTokens: count(0, 'tokens')
    .optional()
    .describe('openai: tokens that prompts begin with in common, default 0'),
  prefixes: count(1, 'prefixes')
    .optional()
    .describe('openai: how many different such beginnings, default 1'),
  turns: quantity(parseLengths, 'a number of turns')
    .optional()
    .describe(
      'openai: turns of a conversation, 4 or 1..6: each prompt is all that was said before and inputTokens more; default: none',
    ),
  conversations: count(1, 'conversations')
    .optional()
    .describe('openai: how many take turns, default 32: so many requests are between two of one'),
  lengths: text('a path')
    .optional()
    .describe(
      "openai: recorded lengths, a CSV with inputTokens,outputTokens (or ContextTokens,GeneratedTokens) or Mooncake's JSON Lines, relative to this file",
    ),
  tokenizer: text('a path')
    .optional()
    .describe('openai: tokenizer.json of the model, for exact lengths; default: a token is a word'),
  ignoreEos: z
    .boolean({ error: 'expected true or false' })
    .optional()
    .describe('openai: answers of the drawn length, default true'),
})
type PayloadEntry = z.output<typeof payloadKeys>
const payload = z.union(
  [text('a payload').transform((file): PayloadEntry => ({ file })), payloadKeys],
  {
    error: 'expected generated, the path of a file or folder, or {file, count, items}',
  },
)

const variant = z.strictObject({
  quality: z
    .number({ error: 'expected a number' })
    .describe('how good its answers are, as you measured it: accuracy, F1, ...; more is better'),
  model: text('an architecture')
    .optional()
    .describe("architecture, where it is another than the model's, e.g. distilbert"),
  path: text('a path').optional().describe('a model of your own, relative to this file'),
  values: z
    .record(z.string(), scalar, { error: 'expected name: value pairs' })
    .optional()
    .describe(
      'parameters that come with it, e.g. {precision: int8, sequenceLength: 64}; tuned ones win',
    ),
})

export const experimentFileSchema = z.strictObject({
  name: text('a name').optional().describe('name of the experiment; default: the model'),
  model: model
    .optional()
    .describe(
      'what is served: bert, resnet50, ..., a path of your own, a config.json, or {name, architecture, path, version}',
    ),
  slo: slo
    .optional()
    .describe(
      'latency SLO: 50ms (p99), p95<80ms, or {percentile, limit, errorRate}; of a language model also several: {ttft: 200ms, tpot: 30ms}',
    ),
  objective: choice(objectiveKinds, 'an objective')
    .optional()
    .describe(
      `what is best among configurations that keep the SLO; default ${defaultKind.withDemand} with a demand, else ${defaultKind.plain}`,
    ),
  objectiveMetric: text('the name of a metric')
    .optional()
    .describe(
      `what the objectives ${kindsAsking('metric').join(' and ')} rank by: one of \`metrics\`, with its labels where several have the name; default the only one`,
    ),
  demand: rate.optional().describe('requests per second that the replicas must serve together'),
  headroom: share
    .optional()
    .describe(`share of the capacity kept free for peaks, default ${defaults.headroom}`),
  maxPricePerHour: money
    .optional()
    .describe(
      `bound for the objectives ${kindsAsking('price bound').join(' and ')}, $ per hour of one replica`,
    ),
  maxJoulesPerRequest: z.coerce
    .number({ error: 'expected a number' })
    .positive({ error: 'must be more than 0' })
    .optional()
    .describe(
      'most energy of a request, J, of what tells its power (nvidia-smi, RAPL); over it, and where nothing tells it, a configuration is infeasible',
    ),
  backend: choice(backends, 'a backend')
    .optional()
    .describe(`where trials run, default ${defaults.backend}`),
  devices: choice(deviceChoices, 'devices')
    .optional()
    .describe(`auto: GPUs that are there, else emulated ones; default ${defaults.devices}`),
  space: z
    .record(z.string(), parameter, { error: 'expected name: values pairs' })
    .optional()
    .describe('parameters to tune, name: values; those of the built-in predictor have defaults'),
  constraints: z
    .union([z.array(text('a condition')), text('a condition').transform((one) => [one])], {
      error: 'expected a list of conditions',
    })
    .optional()
    .describe("conditions that every configuration keeps, e.g. 'batchSize <= queueLimit'"),
  pin: z
    .record(z.string(), scalar, { error: 'expected name: value pairs' })
    .optional()
    .describe('parameters held at one value, e.g. cpuCores: 2'),
  variants: z
    .record(text('a name'), variant, { error: 'expected name: {quality, ...} pairs' })
    .optional()
    .describe(
      "models to choose from, name → {quality, model, path, values}; the parameter 'variant' is tuned over them, the first is the baseline",
    ),
  minQuality: z.coerce
    .number({ error: 'expected a number' })
    .optional()
    .describe('variants of less quality are not tried'),
  predictor: predictor
    .optional()
    .describe('what serves the model: builtin, {command: ...} or {url: ...}; default builtin'),
  kubernetes: z
    .strictObject({
      namespace: text('a namespace')
        .optional()
        .describe('where trials run, default that of the current context'),
      pod: z
        .record(z.string(), z.unknown(), {
          error: 'expected a pod template with metadata and spec',
        })
        .optional()
        .describe(
          'pod template (metadata, spec) of your own predictor; tuned values go into its container, all else stays as it is. Without an image: laid over the pod of the built-in predictor, e.g. {spec: {tolerations: [...]}}',
        ),
      job: z
        .record(z.string(), z.unknown(), {
          error: 'expected a pod template with metadata and spec',
        })
        .optional()
        .describe(
          'laid over the pod of the load generator (metadata, spec; its container is `load`), e.g. {spec: {priorityClassName: low, containers: [{name: load, resources: {limits: {cpu: 1}}}]}}',
        ),
      container: text('a name')
        .optional()
        .describe('container of the pod that is tuned, default its only one'),
      port: count(1, 'a port')
        .optional()
        .describe('port it serves on, default the first of the container'),
      image: text('an image')
        .optional()
        .describe(
          'image with `tune` as its entry point: the built-in predictor, and the load generator of every predictor',
        ),
      loadFrom: z
        .enum(loadOrigins)
        .optional()
        .describe(
          'cluster: a Job beside the predictor; port-forward: from here through the API server; here: from here to pod addresses',
        ),
      through: z
        .enum(['pod', 'service'], { error: 'expected pod or service' })
        .optional()
        .describe("where load goes: the pod's address (default), or a Service of each trial"),
      scaleUpTimeout: duration
        .optional()
        .describe(
          'how long a pod without a place waits for a node, whatever the autoscaler says; default 10m while it says that it adds one',
        ),
      gpuScheme: z
        .enum(gpuSchemes)
        .optional()
        .describe('how GPUs are asked for, default: as the nodes that have them are set up'),
      dra: z
        .strictObject({
          deviceClass: text('a DeviceClass')
            .optional()
            .describe('default gpu.nvidia.com, and mig.nvidia.com for slices'),
          sharing: z
            .enum(draSharings)
            .optional()
            .describe(
              'how a part of a GPU is asked for, default capacity where the driver offers it, else mps',
            ),
        })
        .optional()
        .describe('GPUs by dynamic resource allocation (gpuScheme dra)'),
    })
    .optional()
    .describe('backend kubernetes: where and from what'),
  load: z
    .strictObject({
      arrivals: arrivals
        .optional()
        .describe(
          `poisson, constant, gamma:CV, on-off:ON,OFF or trace:FILE; default ${defaults.arrivals}`,
        ),
      payload: payload
        .optional()
        .describe(
          'request bodies: generated, a file, a folder of pictures, or {file, count, items}; default generated',
        ),
      timeout: duration
        .optional()
        .describe('deadline of one request; default 10 times the SLO, at least 2s'),
      warmUp: warmUp
        .optional()
        .describe(
          'requests before anything is measured, counted in the time of the launch: a number, a file of them, or {requests, atOnce, payload}',
        ),
      trialTime: duration
        .optional()
        .describe(
          `time under open load of one trial, once its server is warm, default ${defaults.trialTime}`,
        ),
      confirmTime: duration
        .optional()
        .describe(`time under load of the winner's confirmation, default ${defaults.confirmTime}`),
    })
    .optional()
    .describe('how trials are loaded'),
  metrics: metrics
    .optional()
    .describe(
      "the server's own metrics (Prometheus text), read under load at each rate that is measured: a name, queue_depth <= 20, or {name, labels, max, from}; over its `max` a configuration is infeasible",
    ),
  expect: z
    .record(text('a path'), expectation, { error: 'expected path: value pairs' })
    .optional()
    .describe(
      "what stands in every answer, path → value or {value, tolerance}, e.g. 'predictions[0].label: spam', 'outputs.logits.data[0]: {value: 0.5, tolerance: 0.01}'",
    ),
  golden: golden
    .optional()
    .describe(
      `answers that every other configuration's are held against: first (those of the first configuration), off, or a JSON Lines file of answers; default ${defaults.golden}`,
    ),
  budget: z
    .strictObject({
      maxTrials: count(1, 'trials')
        .optional()
        .describe(`most trials, default ${defaults.maxTrials}`),
      timeLimit: duration
        .optional()
        .describe('for the whole run: no trial begins after it, one under way ends; default none'),
      cost: money
        .optional()
        .describe('most that the trials may cost together by the price book, default no limit'),
    })
    .optional()
    .describe('what the run may spend'),
  stop: z
    .strictObject({
      tolerance: share
        .optional()
        .describe(
          `how much better something untried must be to matter, default ${defaults.tolerance}`,
        ),
      certainty: share
        .optional()
        .describe(
          `stop when it is this certain that nothing better is left, default ${defaults.certainty}`,
        ),
      yearlyBill: money
        .optional()
        .describe(
          'stop when a trial costs more than it may save of this in a year; default the bill of the demand, or of one replica',
        ),
    })
    .optional()
    .describe('when the search has found enough'),
  parallel: count(1, 'trials at once')
    .optional()
    .describe(
      `trials at once, default ${defaults.parallel}; on this machine the next one's server starts meanwhile, where cores are left for it and none of its GPUs is used`,
    ),
  seed: count(0, 'a seed').optional().describe(`seed of all randomness, default ${defaults.seed}`),
  sampler: choice(samplerNames, 'a sampler')
    .optional()
    .describe(`how the next configuration is chosen, default ${defaults.sampler}`),
  gpuCatalogue: text('a path')
    .optional()
    .describe(
      'GPUs of your own (YAML), name → {memoryGiB, bandwidthGBs, peakTflops: {fp32, fp16, ...}}, relative to this file',
    ),
  calibration: text('a name')
    .optional()
    .describe('name of what `tune calibrate` measured, or none; default its own'),
  prices: text('a path or a provider')
    .optional()
    .describe(
      `price book: ${providerNames.join(', ')}, or a file (YAML), relative to this file; default: on-demand list prices`,
    ),
  db: text('a path')
    .optional()
    .describe(
      `trial store, relative to this file; default ${defaults.db} in the working directory`,
    ),
  out: text('a path')
    .optional()
    .describe(
      'folder for the result files, relative to this file; default tune-results/<experiment>',
    ),
  send: send
    .optional()
    .describe(
      'programs that the run is told to while it goes on, by kind; see docs/how-to/send-results.md',
    ),
  history: z
    .union([z.boolean(), z.enum(['true', 'false']).transform((value) => value === 'true')], {
      error: 'expected true or false',
    })
    .optional()
    .describe(
      'learn from earlier trials of the same model and predictor in the trial store; default true (false: the same seed repeats a run whatever the store holds)',
    ),
  confirm: z
    .union([z.boolean(), z.enum(['true', 'false']).transform((value) => value === 'true')], {
      error: 'expected true or false',
    })
    .optional()
    .describe('measure the winner once more, independently; default true'),
})

/** One layer of settings (defaults, a file, flags), in base units. */
export type ExperimentEntries = z.output<typeof experimentFileSchema>

/** What people write in the file, and programs in an object: '50ms', '20%', '1..32'. */
export type ExperimentInput = z.input<typeof experimentFileSchema>

/** The schema of the file for editors: what may be written, not what it is read as. */
export const experimentJsonSchema = () => ({
  ...z.toJSONSchema(experimentFileSchema, { io: 'input', unrepresentable: 'any' }),
  title: 'tune experiment',
})
