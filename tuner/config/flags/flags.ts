/**
 * Flags of the command line: a short form of the experiment file. This module loads neither schema
 * nor YAML, so that `--help` starts fast.
 */
import { type Command, Option } from 'commander'
import { latencyMetricNames, latencyMetrics } from '../../../profiler/model/latency-metrics.ts'
import {
  defaultObjectiveKind,
  listKindsRequiring,
  objectiveKinds,
} from '../../../search/objective.ts'
import { samplerNames } from '../../../search/samplers/sampler-names.ts'
import {
  assumedAcceptance,
  speculativeMethods,
} from '../../../trials/predictor/llm/speculative-methods.ts'
import { providerNames } from '../../../trials/prices/providers.ts'
import { createDraft, type Draft } from '../draft.ts'
import { backends, defaults, deviceChoices, outputKinds } from '../names.ts'
import type { ConfigProblem, Origin } from '../types.ts'
import { parseSloParts } from '../values/slo-text.ts'
import type { Layer } from '../yaml-file.ts'
import { type Flag, parseFlagNames, setRepeatedFlag } from './flag-entries.ts'
import { serverFlags } from './server-flags.ts'

const goalSection = 'Model and goal'
const filesSection = 'Files'

const formatChoices = (names: readonly string[]) => names.join(' | ')

const sections: Readonly<Record<string, readonly Omit<Flag, 'group'>[]>> = {
  [goalSection]: [
    {
      flags: '-m, --model <name>',
      path: ['model'],
      what: 'model to serve: bert, resnet50, ..., or the path of your own or of its config.json',
    },
    {
      flags: '--slo <slo>',
      path: ['slo'],
      parts: (text) => ({ ...parseSloParts(text) }),
      joined: true,
      what: "latency SLO: 50ms (p99), p95<80ms; for language models 'ttft p95<300ms' or 'p90 ttft<200ms tpot<30ms'",
    },
    ...latencyMetricNames.map((metric, i) => ({
      flags: `--slo-${metric} <duration>`,
      path: ['slo', metric],
      what: `limit of ${latencyMetrics[metric].what}${i === 0 ? '; a request must meet all limits' : ''} (default: none)`,
    })),
    {
      flags: '--error-rate <share>',
      path: ['slo', 'errorRate'],
      default: defaults.errorRate,
      what: 'maximum share of failed requests',
    },
    {
      flags: '--rps <rate>',
      path: ['demand'],
      what: 'demand to serve: 500, 30k/min; finds the cheapest replicas for it (default: none)',
    },
    {
      flags: '--headroom <share>',
      path: ['headroom'],
      default: defaults.headroom,
      what: 'share of the capacity kept free for peaks',
    },
    {
      flags: '--min-quality <number>',
      path: ['minQuality'],
      what: 'skip model variants below this quality (default: none)',
    },
    {
      flags: '--objective <name>',
      path: ['objective'],
      what: `${formatChoices(objectiveKinds)} (default: ${defaultObjectiveKind.withDemand} with --rps, else ${defaultObjectiveKind.plain})`,
    },
    {
      flags: '--metric <name>',
      gather: 'list',
      path: ['metrics'],
      what: "metric of the server to read under load, with an optional bound: 'queue_depth <= 20', 'queue_depth from :8002/metrics'; repeatable (default: none)",
    },
    {
      flags: '--objective-metric <name>',
      path: ['objectiveMetric'],
      what: `metric to optimise with ${formatChoices(listKindsRequiring('metric'))} (default: the only one)`,
    },
    {
      flags: '--max-price <money>',
      path: ['maxPricePerHour'],
      what: `maximum $ per hour of one replica, for ${formatChoices(listKindsRequiring('price bound'))}`,
    },
    {
      flags: '--max-energy <joules>',
      path: ['maxJoulesPerRequest'],
      what: 'maximum energy of a request in J, where the hardware reports power (default: no limit)',
    },
    { flags: '--name <name>', path: ['name'], what: 'name of the experiment (default: the model)' },
  ],
  'Where trials run': [
    {
      flags: '--backend <name>',
      path: ['backend'],
      default: defaults.backend,
      what: formatChoices(backends),
    },
    {
      flags: '--devices <name>',
      path: ['devices'],
      default: defaults.devices,
      what: `${formatChoices(deviceChoices)} (default: ${defaults.devices}: the GPUs of this machine, else emulated ones)`,
    },
    {
      flags: '--acceptance <share>',
      path: ['predictor', 'acceptance'],
      what: `assumed acceptance rate of draft tokens, for simulated speculative decoding (default: ${speculativeMethods.map((method) => `${method} ${100 * assumedAcceptance[method]}%`).join(', ')})`,
    },
    {
      flags: '--gpus <list>',
      path: ['space', 'gpu'],
      what: 'GPU models to try: T4,V100 (default: those of this machine; emulated: T4, L4, A10G, V100, A100-40GB; for language models L4, A10G, L40S, A100-80GB, H100)',
    },
    {
      flags: '--namespace <name>',
      path: ['kubernetes', 'namespace'],
      what: "Kubernetes namespace of the trials (default: the current context's)",
    },
    {
      flags: '--image <ref>',
      path: ['kubernetes', 'image'],
      what: 'Kubernetes image with `tune` as its entry point, for the built-in predictor and the load generator (default: tune-predictor:0.1.0, for trials on GPUs its build with CUDA)',
    },
  ],
  'Your own server': serverFlags,
  'What is tuned': [
    {
      flags: '--cores <values>',
      path: ['space', 'cpuCores'],
      what: 'CPU cores to try: 1..4, 1,2,8 (default: powers of two up to the cores of this machine)',
    },
    {
      flags: '--gpu-memory <values>',
      path: ['space', 'gpuMemoryPercent'],
      what: 'percent of one GPU to try: 25,50,100 (default: 10,25,50,100)',
    },
    {
      flags: '--batch <values>',
      path: ['space', 'batchSize'],
      what: 'maximum batch sizes to try: 1..32 (powers of two), 1,4,16 (default: 1..128, on CPU 1..32)',
    },
    {
      flags: '--sequence-length <values>',
      path: ['space', 'sequenceLength'],
      what: "tokens per text: 128 or 64..256 (default: the model's own)",
    },
    {
      flags: '--param <name=values>',
      gather: 'parameters',
      path: ['space'],
      what: "another parameter to tune: workers=1..8, env:MODE=fast,exact, args:max-num-seqs='16..256 x2'; repeatable",
    },
    {
      flags: '--pin <name=value>',
      gather: 'entries',
      path: ['pin'],
      what: 'fix a parameter at one value: cpuCores=2; repeatable',
    },
    {
      flags: '--constraint <condition>',
      gather: 'list',
      path: ['constraints'],
      what: "condition that every configuration must satisfy: 'batchSize <= queueLimit'; repeatable",
    },
    {
      flags: '--kv-transfer <way>',
      path: ['predictor', 'kvTransfer'],
      what: "bandwidth per GPU and latency of the KV cache transfer from prefill to decode servers: '100 Gb/s, 5ms' (default: 200 GB/s over NVLink in a machine, else 25 GB/s, and 2ms)",
    },
  ],
  Load: [
    {
      flags: '--arrivals <pattern>',
      path: ['load', 'arrivals'],
      default: defaults.arrivals,
      what: 'poisson | constant | gamma:CV | on-off:1s,3s | trace:FILE',
    },
    {
      flags: '--payload <file>',
      path: ['load', 'payload'],
      parts: (text) => ({ file: text }),
      what: 'request bodies: JSON Lines, .txt (a text per line), a folder of images, conversations (ShareGPT), or one file that is the whole request, such as clip.wav (default: generated for the model)',
    },
    {
      flags: '--items <numbers>',
      path: ['load', 'payload', 'items'],
      what: "items per request: 4, 1..16, or with weights '1:70, 8:30' (default: 1)",
    },
    {
      flags: '--golden <answers>',
      path: ['golden', 'from'],
      default: defaults.golden,
      what: `reference answers to compare every configuration's answers with: first | off | a JSON Lines file (default: ${defaults.golden}: those of the first configuration)`,
    },
    {
      flags: '--timeout <duration>',
      path: ['load', 'timeout'],
      what: 'timeout of one request (default: 10 times the SLO, at least 2s)',
    },
    {
      flags: '--warm-up <requests>',
      path: ['load', 'warmUp'],
      what: 'requests to send before measuring, as part of the launch: 100, or a file of requests (default: 1)',
    },
    {
      flags: '--trial-time <duration>',
      path: ['load', 'trialTime'],
      default: defaults.trialTime,
      what: 'load-test duration of a trial, after warm-up',
    },
    {
      flags: '--confirm-time <duration>',
      path: ['load', 'confirmTime'],
      default: defaults.confirmTime,
      what: 'load-test duration of a confirmation; clear cases take a third, close ones twice as long',
    },
    {
      flags: '--no-confirm',
      path: ['confirm'],
      value: false,
      default: true,
      what: 'skip the second load test of the winner',
    },
  ],
  'Budget and search': [
    {
      flags: '--max-trials <n>',
      path: ['budget', 'maxTrials'],
      default: defaults.maxTrials,
      what: 'maximum number of trials',
    },
    {
      flags: '--time-limit <duration>',
      path: ['budget', 'timeLimit'],
      what: 'start no trial after this time: 90s, 10m, 1h30m (default: none)',
    },
    {
      flags: '--budget <money>',
      path: ['budget', 'cost'],
      what: 'maximum cost of all trials by the price book: $5 (default: no limit)',
    },
    {
      flags: '--tolerance <share>',
      path: ['stop', 'tolerance'],
      default: defaults.tolerance,
      what: 'stop when no untried configuration is likely to be cheaper by this share',
    },
    {
      flags: '--certainty <share>',
      path: ['stop', 'certainty'],
      default: defaults.certainty,
      what: 'probability at which --tolerance stops the search',
    },
    {
      flags: '--value-of <money>',
      path: ['stop', 'yearlyBill'],
      what: 'yearly serving bill: skip trials that cost more than they may save (default: the bill of the demand, or of one replica)',
    },
    {
      flags: '--parallel <n>',
      path: ['parallel'],
      default: defaults.parallel,
      what: 'trials at once',
    },
    {
      flags: '--sampler <name>',
      path: ['sampler'],
      default: defaults.sampler,
      what: formatChoices(samplerNames),
    },
    {
      flags: '--no-history',
      path: ['history'],
      value: false,
      default: true,
      what: 'ignore earlier trials of the same model in the trial store',
    },
    { flags: '--seed <n>', path: ['seed'], default: defaults.seed, what: 'random seed' },
  ],
  [filesSection]: [
    {
      flags: '--gpu-catalogue <file>',
      path: ['gpuCatalogue'],
      what: 'YAML file of your own GPUs (default: only the built-in catalogue)',
    },
    {
      flags: '--calibration <name>',
      path: ['calibration'],
      what: 'calibration of `tune calibrate` to use, or none (default: the one of this server)',
    },
    {
      flags: '--prices <file>',
      path: ['prices'],
      what: 'price book, YAML (default: on-demand list prices)',
    },
    {
      flags: '--provider <name>',
      path: ['prices'],
      what: `prices of one provider: ${providerNames.join(', ')}, or a file (default: as --prices)`,
    },
    { flags: '--db <file>', path: ['db'], default: defaults.db, what: 'trial store' },
    {
      flags: '-o, --out <where>',
      path: [],
      parts: parseOutFlag,
      joined: true,
      what: `result folder (default: tune-results/<experiment>), or KIND=URL to send the run to, KIND one of ${outputKinds.join(', ')} (docs/how-to/send-results.md); repeatable`,
    },
  ],
}

export const experimentFlags: readonly Flag[] = Object.entries(sections).flatMap(([group, flags]) =>
  flags.map((flag) => ({ ...flag, group })),
)

/** Describes a flag, with its default. */
const describeFlag = ({ what, value, default: usual }: Flag): string =>
  usual === undefined || value !== undefined || what.includes('(default: ')
    ? what
    : `${what} (default: ${usual})`

/** Defaults of all flags, in the form of the experiment file. */
export function createDefaultsLayer(folder: string): Layer {
  const draft = createDraft(folder)
  draft.set(['slo', 'percentile'], defaults.percentile, { kind: 'default' })
  for (const { path, default: value } of experimentFlags)
    if (value !== undefined) draft.set(path, value, { kind: 'default' })
  return draft.layer()
}

/** Flags of a parsed command line, as commander's `opts()` gives them. */
export type FlagValues = Readonly<Record<string, unknown>>

/**
 * Adds the experiment's flags, `-f` and `--dry-run` to a command, without defaults: only flags that
 * were given override the file.
 */
export function addExperimentOptions(command: Command): Command {
  command.optionsGroup(`${goalSection}:`)
  command.option('-f, --file <path>', 'experiment file (YAML); flags override it')
  for (const flag of experimentFlags)
    command.addOption(createOption(flag).helpGroup(`${flag.group}:`))
  command.addOption(
    new Option(
      '--dry-run',
      'print the experiment and its first configurations without starting anything',
    ).helpGroup(`${filesSection}:`),
  )
  return command
}

/**
 * Adds some of the experiment's flags, by their long names, to a command that needs no complete
 * experiment.
 */
export function addChosenOptions(command: Command, names: readonly string[]): void {
  for (const flag of experimentFlags)
    if (names.includes(parseFlagNames(flag).long)) command.addOption(createOption(flag))
}

function createOption(flag: Flag): Option {
  const option = new Option(flag.flags, describeFlag(flag))
  if (flag.joined)
    option.argParser((value: string, before: string | undefined) =>
      before === undefined ? value : `${before}, ${value}`,
    )
  if (flag.gather)
    option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
  return option
}

/**
 * The flags as a partial experiment file, and which flag each value came from. Relative paths start
 * from the working directory.
 */
export function createFlagsLayer(
  values: FlagValues,
  folder: string,
): { layer: Layer; problems: ConfigProblem[] } {
  const draft = createDraft(folder)
  const problems: ConfigProblem[] = []
  for (const flag of experimentFlags) {
    const { long, key } = parseFlagNames(flag)
    // `--value-of` is valueOf, which every object inherits.
    const value = Object.hasOwn(values, key) ? values[key] : undefined
    if (value === undefined || (flag.value !== undefined && value !== flag.value)) continue
    const origin: Origin = { kind: 'flag', flag: long }
    if (flag.gather) setRepeatedFlag(flag, value as string[], { draft, origin, problems })
    else setValue(draft, flag, flag.value ?? value, origin)
  }
  return { layer: draft.layer(), problems }
}

/**
 * Values of an environment variable that set a flag without an argument; the second list leaves it
 * unset.
 */
const trueWords = ['1', 'true', 'yes']
const falseWords = ['0', 'false', 'no']

/**
 * TUNE_MODEL, TUNE_SLO, TUNE_MAX_TRIALS, TUNE_NO_CONFIRM, ...: every flag that takes one value or
 * none, for CI and containers. They override the file; flags override them. Any other value is
 * passed on, and the schema rejects it.
 */
export function createEnvironmentLayer(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string,
): Layer {
  const draft = createDraft(folder)
  for (const flag of experimentFlags) {
    if (flag.gather) continue
    const variable = `TUNE_${parseFlagNames(flag).long.slice(2).replaceAll('-', '_').toUpperCase()}`
    const value = environment[variable]
    if (value === undefined || value === '') continue
    if (flag.value === undefined) setValue(draft, flag, value, { kind: 'environment', variable })
    else if (!falseWords.includes(value.toLowerCase()))
      setValue(draft, flag, trueWords.includes(value.toLowerCase()) ? flag.value : value, {
        kind: 'environment',
        variable,
      })
  }
  return draft.layer()
}

function setValue(draft: Draft, flag: Flag, value: unknown, origin: Origin): void {
  if (!flag.parts) draft.set(flag.path, value, origin)
  else
    for (const [key, part] of Object.entries(flag.parts(String(value))))
      draft.set([...flag.path, key], part, origin)
}

/**
 * `--out` as entries of the file: a folder, or KIND=URL, joined with ', '. An unknown KIND is
 * passed on, and the schema rejects it.
 */
function parseOutFlag(value: string): {
  readonly out?: string
  readonly send?: Readonly<Record<string, string>>
} {
  const folders: string[] = []
  const sent: Record<string, string> = {}
  for (const part of value.split(', ')) {
    const [, kind, url] = /^([A-Za-z][\w-]*)=(.*)$/s.exec(part) ?? []
    const known = outputKinds.some((name) => name === kind)
    if (kind !== undefined && url !== undefined && (known || url.includes('://'))) sent[kind] = url
    else folders.push(part)
  }
  return {
    ...(folders.length > 0 && { out: folders.join(', ') }),
    ...(Object.keys(sent).length > 0 && { send: sent }),
  }
}
