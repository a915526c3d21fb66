/**
 * Schema of the experiment file. It decodes texts ('50ms', '20%', '1..32') into base units under
 * the same keys: durations in ms, rates per second, shares and percentiles 0-1, money in $.
 */

import { z } from 'zod'
import {
  defaultObjectiveKind,
  listKindsRequiring,
  objectiveKinds,
} from '../../../search/objective.ts'
import { samplerNames } from '../../../search/samplers/sampler-names.ts'
import { draSharingModes } from '../../../trials/launchers/kubernetes/gpus/dra.ts'
import { gpuSchemes } from '../../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import {
  explainUnknownRates,
  findProviderBook,
  providerNames,
} from '../../../trials/prices/providers.ts'
import { backends, defaults, deviceChoices, loadOrigins } from '../names.ts'
import { formatItems, parseItems } from '../values/payload.ts'
import { formatLengths, parseLengths } from '../values/prompts.ts'
import { expectation, golden } from './answer-schema.ts'
import { arrivals } from './arrivals-schema.ts'
import { metrics } from './metric-schema.ts'
import { model } from './model-schema.ts'
import { send } from './output-schema.ts'
import { parameter, scalar } from './parameter-schema.ts'
import { podKeys } from './pod-schema.ts'
import { predictor } from './predictor-schema.ts'
import {
  boolean,
  choice,
  count,
  createCodec,
  createQuantity,
  duration,
  money,
  number,
  optional,
  parseOnce,
  path,
  rate,
  share,
  text,
} from './schema-parts.ts'
import { classSlo, slo } from './slo-schema.ts'
import { stage } from './stage-schema.ts'
import { warmUp } from './warm-up-schema.ts'

const tokens = createQuantity(parseLengths, 'a length in tokens', formatLengths)
const promptClass = z.strictObject({
  share: share.describe('share of all requests, e.g. 70%'),
  inputTokens: tokens,
  outputTokens: tokens,
  slo: optional(
    classSlo,
    'limits of this class, e.g. {ttft: 300ms, tpot: 30ms}; default: those of `slo`',
  ),
})

const payloadFile = path('a payload', (file) => file === 'generated')
const payloadKeys = z.strictObject({
  file: optional(
    payloadFile,
    'JSON Lines (one request body per line), .txt (one text per line), a folder of JPEG and PNG files, or conversations (ShareGPT)',
  ),
  count: optional(
    count(1, 'a number of request bodies'),
    'number of different request bodies; default: 64, or for a file of texts, as many as it yields',
  ),
  items: optional(
    createQuantity(parseItems, 'a number of items', formatItems),
    "items per request: 4, 1..16, '1:70, 8:20, 32:10' (weights) or lognormal:4,0.6; default: 1, or as in the trace",
  ),
  inputTokens: optional(
    tokens,
    'openai: length of a prompt: 512, 100..500, normal:512,128 or lognormal:120,0.9 (default)',
  ),
  outputTokens: optional(
    tokens,
    'openai: length of an answer, in the same forms; default: lognormal:160,0.7',
  ),
  classes: optional(
    z.record(text('a name'), promptClass, {
      error: 'expected name: {share, inputTokens, outputTokens, slo} pairs',
    }),
    'openai: a mix of request classes, name → {share, inputTokens, outputTokens, slo}, e.g. {chat: {share: 70%, inputTokens: 300, outputTokens: 200, slo: {ttft: 300ms}}, ...}; each class must meet the percentile of `slo`',
  ),
  sharedPrefixTokens: optional(
    count(0, 'tokens'),
    'openai: length of a prefix that prompts share, in tokens; default: 0',
  ),
  prefixes: optional(
    count(1, 'prefixes'),
    'openai: number of different shared prefixes; default: 1',
  ),
  turns: optional(
    createQuantity(parseLengths, 'a number of turns', formatLengths),
    'openai: turns per conversation, such as 4 or 1..6; each prompt is the conversation so far plus inputTokens; default: no conversations',
  ),
  conversations: optional(
    count(1, 'conversations'),
    'openai: number of interleaved conversations, which is how many requests lie between two turns of the same one; default: 32',
  ),
  lengths: optional(
    path('a path'),
    'openai: file of recorded lengths, relative to this file: a CSV with inputTokens,outputTokens (or ContextTokens,GeneratedTokens), or Mooncake JSON Lines',
  ),
  tokenizer: optional(
    path('a path'),
    'openai: tokenizer.json of the model, for exact lengths; default: one word counts as one token',
  ),
  ignoreEos: optional(boolean, 'openai: force answers to the sampled length; default: true'),
})
type PayloadEntry = z.output<typeof payloadKeys>
const payload = z.union(
  [createCodec(payloadFile, (file): PayloadEntry => ({ file })), payloadKeys],
  {
    error: 'expected generated, the path of a file or folder, or {file, count, items}',
  },
)

const variant = z.strictObject({
  quality: number.describe(
    'quality of the answers, as you measured it: accuracy, F1, ...; higher is better',
  ),
  model: optional(
    text('an architecture'),
    "architecture, if it differs from the model's, e.g. distilbert",
  ),
  path: optional(path('a path'), 'path of your own model, relative to this file'),
  values: optional(
    z.record(z.string(), scalar, { error: 'expected name: value pairs' }),
    'parameters of the variant, e.g. {precision: int8, sequenceLength: 64}; tuned values override them',
  ),
})

/** A boolean, or its text in an environment variable. */
const toggle = z.union(
  [z.boolean(), createCodec(z.enum(['true', 'false']), (value) => value === 'true')],
  { error: 'expected true or false' },
)

const isProvider = (prices: string): boolean =>
  findProviderBook(prices) !== undefined || explainUnknownRates(prices) !== undefined

export const experimentFileSchema = z.strictObject({
  name: optional(text('a name'), 'name of the experiment; default: the model'),
  model: optional(
    model,
    'model to serve: bert, resnet50, ..., the path of your own model, a config.json, or {name, architecture, path, version}',
  ),
  slo: optional(
    slo,
    'latency SLO: 50ms (p99), p95<80ms, or {percentile, limit, errorRate}; for a language model also several limits: {ttft: 200ms, tpot: 30ms}',
  ),
  objective: optional(
    choice(objectiveKinds, 'an objective'),
    `what to optimise among configurations that meet the SLO; default: ${defaultObjectiveKind.withDemand} with a demand, else ${defaultObjectiveKind.plain}`,
  ),
  objectiveMetric: optional(
    text('the name of a metric'),
    `metric for the objectives ${listKindsRequiring('metric').join(' and ')}: one of \`metrics\`, with its labels if several have the same name; default: the only one`,
  ),
  demand: optional(rate, 'demand that all replicas together must serve, requests per second'),
  headroom: optional(
    share,
    `share of the capacity kept free for peaks; default: ${defaults.headroom}`,
  ),
  maxPricePerHour: optional(
    money,
    `price bound for the objectives ${listKindsRequiring('price bound').join(' and ')}, $ per hour of one replica`,
  ),
  maxJoulesPerRequest: optional(
    z.coerce.number({ error: 'expected a number' }).positive({ error: 'must be more than 0' }),
    'maximum energy per request in J, from the reported power (nvidia-smi, RAPL); a configuration above it, or without reported power, is infeasible',
  ),
  backend: optional(
    choice(backends, 'a backend'),
    `where trials run; default: ${defaults.backend}`,
  ),
  devices: optional(
    choice(deviceChoices, 'devices'),
    `devices of the trials; auto: the GPUs of this machine, else emulated ones; default: ${defaults.devices}`,
  ),
  space: optional(
    z.record(z.string(), parameter, { error: 'expected name: values pairs' }),
    'parameters to tune, name → values; those of the built-in server have defaults',
  ),
  constraints: optional(
    z.union([z.array(text('a condition')), createCodec(text('a condition'), (one) => [one])], {
      error: 'expected a list of conditions',
    }),
    "conditions that every configuration must satisfy, e.g. 'batchSize <= queueLimit'",
  ),
  pin: optional(
    z.record(z.string(), scalar, { error: 'expected name: value pairs' }),
    'parameters fixed at one value, e.g. cpuCores: 2',
  ),
  variants: optional(
    z.record(text('a name'), variant, { error: 'expected name: {quality, ...} pairs' }),
    "model variants to choose from, name → {quality, model, path, values}; tune adds the parameter 'variant', and the first is the baseline",
  ),
  minQuality: optional(
    z.coerce.number({ error: 'expected a number' }),
    'minimum quality of the variants to try',
  ),
  predictor: optional(
    predictor,
    'server of the model: builtin, {command: ...} or {url: ...}; default: builtin',
  ),
  stages: optional(
    z.record(text('a name'), stage, { error: 'expected name: {model, predictor, ...} pairs' }),
    'several models behind one entry instead of one `model`: name → stage; the stage that no other calls is the entry and receives the load; beside `model` of a Triton server: models of this server, which the entry calls',
  ),
  kubernetes: optional(
    z.strictObject({
      namespace: optional(
        text('a namespace'),
        'namespace of the trials; default: that of the current context',
      ),
      pod: podKeys.pod,
      job: optional(
        z.record(z.string(), z.unknown(), {
          error: 'expected a pod template with metadata and spec',
        }),
        'overlay for the pod of the load generator (metadata, spec; its container is `load`), e.g. {spec: {priorityClassName: low, containers: [{name: load, resources: {limits: {cpu: 1}}}]}}',
      ),
      container: podKeys.container,
      port: podKeys.port,
      image: optional(
        text('an image'),
        'image with `tune` as its entry point, for the built-in predictor and the load generator',
      ),
      loadFrom: optional(
        z.enum(loadOrigins),
        'origin of the load; cluster: a Job in the cluster; port-forward: this machine, through the API server; here: this machine, to the pod addresses',
      ),
      through: optional(
        z.enum(['pod', 'service'], { error: 'expected pod or service' }),
        'target of the load: the address of the pod (default), or one Service per trial',
      ),
      scaleUpTimeout: optional(
        duration,
        'how long an unschedulable pod waits for a node, regardless of the autoscaler; default: 10m while the autoscaler reports that it adds a node',
      ),
      gpuScheme: optional(
        z.enum(gpuSchemes),
        'how pods request GPUs; default: derived from the setup of the nodes',
      ),
      dra: optional(
        z.strictObject({
          deviceClass: optional(
            text('a DeviceClass'),
            'DeviceClass to request; default: gpu.nvidia.com, or mig.nvidia.com for slices',
          ),
          sharing: optional(
            z.enum(draSharingModes),
            'how pods request a share of a GPU; default: capacity if the driver supports it, else mps',
          ),
        }),
        'settings of dynamic resource allocation (gpuScheme dra)',
      ),
    }),
    'settings of backend kubernetes',
  ),
  load: optional(
    z.strictObject({
      arrivals: optional(
        arrivals,
        `poisson, constant, gamma:CV, on-off:ON,OFF or trace:FILE; default: ${defaults.arrivals}`,
      ),
      payload: optional(
        payload,
        'request bodies: generated, a file, a folder of images, or {file, count, items}; default: generated',
      ),
      timeout: optional(duration, 'timeout of one request; default: 10 times the SLO, at least 2s'),
      warmUp: optional(
        warmUp,
        'warm-up requests before the measurement, as part of the launch: a number, a file of requests, or {requests, atOnce, payload}',
      ),
      trialTime: optional(
        duration,
        `open-loop load-test duration of a trial, after warm-up; default: ${defaults.trialTime}`,
      ),
      confirmTime: optional(
        duration,
        `load-test duration of the confirmation; default: ${defaults.confirmTime}`,
      ),
    }),
    'load of the trials',
  ),
  metrics: optional(
    metrics,
    'metrics of the server (Prometheus text) to read at each measured rate: a name, queue_depth <= 20, or {name, labels, max, from}; a configuration above `max` is infeasible',
  ),
  expect: optional(
    z.record(text('a path'), expectation, { error: 'expected path: value pairs' }),
    "values that every answer must contain, path → value or {value, tolerance}, e.g. 'predictions[0].label: spam', 'outputs.logits.data[0]: {value: 0.5, tolerance: 0.01}'",
  ),
  golden: optional(
    golden,
    `reference answers to compare the answers of every configuration with: first (those of the first configuration), off, or a JSON Lines file; default: ${defaults.golden}`,
  ),
  budget: optional(
    z.strictObject({
      maxTrials: optional(
        count(1, 'trials'),
        `maximum number of trials; default: ${defaults.maxTrials}`,
      ),
      timeLimit: optional(
        duration,
        'time limit of the run: no trial starts after it, but a running trial finishes; default: none',
      ),
      cost: optional(money, 'maximum cost of all trials by the price book; default: no limit'),
    }),
    'limits of the run',
  ),
  stop: optional(
    z.strictObject({
      tolerance: optional(
        share,
        `improvement below which an untried configuration does not matter; default: ${defaults.tolerance}`,
      ),
      certainty: optional(
        share,
        `stop at this probability that no better configuration is left; default: ${defaults.certainty}`,
      ),
      yearlyBill: optional(
        money,
        'yearly serving bill: stop when a trial costs more than it may save of it; default: the bill of the demand, or of one replica',
      ),
    }),
    'when the search stops',
  ),
  parallel: optional(
    count(1, 'a number of concurrent trials'),
    `number of concurrent trials; default: ${defaults.parallel}; on this machine, the server of the next trial starts early if its cores and GPUs are free`,
  ),
  seed: optional(count(0, 'a seed'), `random seed; default: ${defaults.seed}`),
  sampler: optional(
    choice(samplerNames, 'a sampler'),
    `how the search chooses the next configuration; default: ${defaults.sampler}`,
  ),
  gpuCatalogue: optional(
    path('a path'),
    'YAML file of your own GPUs, name → {memoryGiB, bandwidthGBs, peakTflops: {fp32, fp16, ...}}, relative to this file',
  ),
  calibration: optional(
    text('a name'),
    'name of a calibration of `tune calibrate`, or none; default: the one of this server',
  ),
  prices: optional(
    path('a path or a provider', isProvider),
    `price book: ${providerNames.join(', ')}, or a YAML file, relative to this file; default: on-demand list prices`,
  ),
  db: optional(
    path('a path'),
    `trial store, relative to this file; default: ${defaults.db} in the working directory`,
  ),
  out: optional(
    path('a path'),
    'folder for the result files, relative to this file; default: tune-results/<experiment>',
  ),
  send: optional(send, 'receivers of live results, by kind; see docs/how-to/send-results.md'),
  history: optional(
    toggle,
    'learn from earlier trials of the same model and predictor in the trial store; default: true (false: the same seed repeats a run, independent of the store)',
  ),
  confirm: optional(toggle, 'measure the winner a second time, independently; default: true'),
})

/** One layer of settings (defaults, a file, flags), in base units; paths are absolute. */
export type ExperimentEntries = z.output<typeof experimentFileSchema>

type WithRequired<T, K extends keyof NonNullable<T>> = NonNullable<T> & {
  [Key in K]-?: NonNullable<NonNullable<T>[Key]>
}

/** All layers merged: settings with a default are present. */
export interface Settings
  extends Omit<
    WithRequired<
      ExperimentEntries,
      | 'headroom'
      | 'backend'
      | 'devices'
      | 'parallel'
      | 'seed'
      | 'sampler'
      | 'history'
      | 'confirm'
      | 'db'
    >,
    'slo' | 'load' | 'golden' | 'budget' | 'stop'
  > {
  readonly slo: WithRequired<ExperimentEntries['slo'], 'percentile' | 'errorRate'>
  readonly load: WithRequired<ExperimentEntries['load'], 'arrivals' | 'trialTime' | 'confirmTime'>
  readonly golden: WithRequired<ExperimentEntries['golden'], 'from'>
  readonly budget: WithRequired<ExperimentEntries['budget'], 'maxTrials'>
  readonly stop: WithRequired<ExperimentEntries['stop'], 'tolerance' | 'certainty'>
}

/** Settings as an experiment file has them: plain data, as JSON. */
export type ExperimentDocument = { readonly [key: string]: unknown }

/**
 * Encodes settings as they are written in a file: the form that is stored, shown and read again.
 */
export const writeDocument = (entries: ExperimentEntries): ExperimentDocument =>
  JSON.parse(
    JSON.stringify(z.encode(experimentFileSchema, entries, parseOnce)),
  ) as ExperimentDocument

/** What people write in the file, and programs in an object: '50ms', '20%', '1..32'. */
export type ExperimentInput = z.input<typeof experimentFileSchema>

/** JSON Schema of the file for editors: the written form, not the decoded one. */
export const createExperimentJsonSchema = () => ({
  ...z.toJSONSchema(experimentFileSchema, { io: 'input', unrepresentable: 'any' }),
  title: 'tune experiment',
})
