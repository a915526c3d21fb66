/**
 * From merged entries to the effective experiment: defaults that depend on others, and everything
 * that a schema cannot see.
 */

import { basename, dirname, isAbsolute, resolve } from 'node:path'
import type { Slo } from '../../profiler/model/slo.ts'
import type { PayloadSource } from '../../profiler/payload-source.ts'
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { getMetric } from '../../search/objective.ts'
import { parameterValues } from '../../search/space/space.ts'
import type { SearchSpace } from '../../search/types.ts'
import type { Architecture } from '../../trials/devices/architecture.ts'
import type { CustomDevices } from '../../trials/devices/custom-devices.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import {
  describeCount,
  isOnnxFile,
  nameGraph,
} from '../../trials/devices/onnx/graph-architecture.ts'
import { readGraphArchitecture } from '../../trials/devices/onnx/graph-file.ts'
import { getBuiltinProtocol } from '../../trials/launchers/builtin.ts'
import { findTemplateProblems, limitsOwnGpuMemory } from '../../trials/launchers/fill.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import type { PriceBook } from '../../trials/prices/book.ts'
import {
  type Context,
  type FileContext,
  isMissing,
  type Report,
  type Surroundings,
} from './context.ts'
import { buildSpace } from './default-space.ts'
import { originsOf } from './describe-experiment.ts'
import {
  checkArchitecture,
  checkGpus,
  checkNoSecretChoices,
  checkSequences,
} from './experiment-checks.ts'
import { resolveObjective, resolveSlo } from './goal.ts'
import {
  checkVisibility,
  divisionNotices,
  type GpuOffer,
  gpusHere,
  isKnownGpu,
  reportUnknown,
  shareHint,
} from './gpus-here.ts'
import { isKindUnknown, type Merged, problemAt } from './layers.ts'
import { defaults } from './names.ts'
import { knownParameter } from './parameters.ts'
import {
  askedProtocol,
  asksForGpu,
  builtinFor,
  languageModelOf,
  reportTemplate,
  resolveDevices,
  resolvePredictor,
} from './predictor-template.ts'
import { isDimensionsFile, type Settings, writeDocument } from './schema/experiment-schema.ts'
import { outputTargets } from './schema/output-schema.ts'
import { servedNames } from './served-model.ts'
import { resolveAnswers } from './settings/answer-settings.ts'
import { checkPodGpu, isOwnPredictor, resolveKubernetes } from './settings/kubernetes-settings.ts'
import { resolveMetrics } from './settings/metric-settings.ts'
import { checkPools, poolNotices } from './settings/pool-settings.ts'
import { checkSpeculation } from './settings/speculation-settings.ts'
import {
  resolveVariants,
  variantNotices,
  variantSettings,
  withVariantParameter,
} from './settings/variant-settings.ts'
import {
  resolveArchitecture,
  resolveArrivals,
  resolveGpus,
  resolvePayload,
  resolvePrices,
  resolveWarmUp,
} from './sources.ts'
import { describeTrace } from './trace.ts'
import { type ConfigProblem, type Experiment, type ModelSpec, pickPlainSettings } from './types.ts'
import type { Path } from './yaml-file.ts'

/** GPUs worth emulating where the user names none: of each price class one that clouds rent out. */
const emulatedGpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
/** The same for language models, which need the memory and its bandwidth. */
const emulatedLlmGpus = ['L4', 'A10G', 'L40S', 'A100-80GB', 'H100']

/** Keys whose meaning is another one for each kind of predictor. */
const byKind: ReadonlySet<unknown> = new Set(['predictor', 'devices', 'backend', 'kubernetes'])

/**
 * @param fallback where to say that something is missing: the file's name or 'command line'
 * @param broken top-level keys that were refused before; they are not missing
 * @returns the experiment, or everything that is wrong
 */
export function resolveExperiment(
  merged: Merged,
  fallback: string,
  broken: ReadonlySet<string>,
  around: Surroundings,
): { experiment?: Experiment; problems: ConfigProblem[] } {
  const { settings: entries } = merged
  const problems: ConfigProblem[] = []
  const report: Report = (path, what, hint) => {
    // What follows from not knowing what kind of predictor was meant is no fault of its own.
    if (byKind.has(path[0]) && isKindUnknown(broken)) return
    problems.push(problemAt(merged.originOf(path), fallback, path, what, hint))
  }
  const folderOf = (path: Path) => merged.layerOf(path)?.folder ?? around.cwd
  const files: FileContext = { entries, report, folderOf, broken, around }

  const { model, architectures } = resolveModel(files)
  const ownGpus = resolveGpus(files)
  const own: CustomDevices = { gpus: ownGpus ?? [], architectures: architectures ?? [] }
  const context: Context = {
    ...files,
    own,
    broken: architectures ? broken : new Set([...broken, 'model']),
  }
  const asked = resolvePredictor(context, model)
  const slo = resolveSlo(context, traitsOf(asked).streams)
  const objective = resolveObjective(context)
  const serving = resolveServing(context, asked, model)
  const { predictor, devicesUsed, variants } = serving
  const kubernetes = resolveKubernetes(context)
  const prices = resolvePrices(context)
  const { space, pins, written } = resolveSpace(
    context,
    serving,
    isOwnPredictor(kubernetes?.pod),
    prices,
  )
  const spaceNotices = checkSpace(context, serving, model, space, prices)
  if (entries.gpuCatalogue !== undefined) checkReach(context, devicesUsed, 'gpuCatalogue')
  else if (model.architecturePath !== undefined) checkReach(context, devicesUsed, 'model')
  const load = resolveLoad(context, slo, traitsOf(predictor))
  const name = checkedName(context, model)
  checkStop(context)
  const metrics = resolveMetrics(context, predictor)
  const answers = resolveAnswers(context)
  // An unreadable GPU file may have explained them.
  if (!ownGpus) return { problems: problems.filter(({ what }) => !what.includes('unknown GPU')) }
  if (problems.length > 0) return { problems }

  const settings: Settings = {
    ...entries,
    name,
    model: {
      name: model.name,
      architecture: model.architecturePath ?? model.architecture,
      path: model.path,
      version: model.version,
    },
    objective: objective.kind,
    objectiveMetric: getMetric(objective),
    space: predictor.kind === 'url' ? undefined : written,
    constraints:
      space.constraints.length > 0 ? space.constraints.map(({ text }) => text) : undefined,
    predictor: { ...entries.predictor, ...settlePredictor(predictor) },
    kubernetes: kubernetes && {
      ...entries.kubernetes,
      container: kubernetes.container,
      port: kubernetes.port,
    },
    load: {
      ...entries.load,
      payload: { ...entries.load.payload, ...settlePayload(load.payload) },
      timeout: load.timeoutMs,
    },
    metrics: metrics.length > 0 ? metrics : undefined,
  }
  const document = writeDocument(settings)
  const { budget, stop } = settings
  const experiment: Experiment = {
    ...pickPlainSettings(settings),
    name,
    model,
    slo,
    objective,
    devicesUsed,
    space,
    variants,
    pins,
    predictor,
    kubernetes,
    load,
    metrics,
    answers,
    budget: {
      maxTrials: budget.maxTrials,
      timeLimitS: budget.timeLimit === undefined ? undefined : budget.timeLimit / 1000,
      maxCost: budget.cost,
    },
    stop,
    own,
    gpuCataloguePath: settings.gpuCatalogue,
    pricesPath: settings.prices,
    dbPath: settings.db,
    outDir: settings.out,
    outputs: outputTargets(settings.send),
    notices: [
      ...variantNotices(variants, entries.minQuality),
      ...dimensionsNotice(model),
      ...graphNotice(own.architectures),
      ...spaceNotices,
      ...(load.arrivals.kind === 'trace' && load.arrivals.readAs !== undefined
        ? describeTrace(load.arrivals, load.arrivals.readAs, load.confirmSeconds)
        : []),
    ],
    settings,
    document,
    origins: originsOf(document, merged, devicesUsed),
  }
  return { experiment, problems }
}

/** What was chosen of the predictor's settings where the user left it open. */
function settlePredictor(predictor: PredictorTemplate): Settings['predictor'] {
  const { kind, protocol } = predictor
  if (kind === 'imported') return { kind, protocol }
  const ready =
    predictor.readyTimeoutS === undefined ? {} : { readyTimeout: predictor.readyTimeoutS * 1000 }
  if (kind === 'builtin') return { kind, protocol, engine: predictor.engine, ...ready }
  if (kind === 'url') return { kind, protocol, ...ready }
  const command = predictor.command.length > 0 ? { command: [...predictor.command] } : {}
  return { kind, protocol, ...command, cwd: predictor.cwd, ...ready }
}

/** The same of the requests. */
function settlePayload(payload: PayloadSource): Settings['load']['payload'] {
  if (payload.kind !== 'generated') return {}
  const { count, prompts } = payload
  const isSampled = prompts !== undefined && !prompts.recorded && !prompts.classes && !prompts.file
  return {
    count,
    ...(isSampled && { inputTokens: prompts.inputTokens, outputTokens: prompts.outputTokens }),
  }
}

/** What serves, on which devices. */
type Serving = Pick<Experiment, 'predictor' | 'devicesUsed' | 'variants'>

function resolveServing(context: Context, asked: PredictorTemplate, model: ModelSpec): Serving {
  const { gpuCatalogue } = context.entries
  const devicesUsed = resolveDevices(context, asked, model)
  const variants = resolveVariants(context, asked.kind, devicesUsed)
  if (asked.kind !== 'builtin') return { predictor: asked, devicesUsed, variants }
  const predictor = variantSettings(
    builtinFor(asked, model, devicesUsed, { gpuCatalogue, ...localDrives(context) }),
    variants,
    model,
    devicesUsed,
  )
  return { predictor, devicesUsed, variants }
}

/** Which engines use this machine's GPUs, where the trials run on them. */
const localDrives = ({ entries, around }: Context) =>
  entries.backend === 'local' && !around.stored ? { drivesGpus: around.machine.drivesGpus } : {}

function resolveSpace(
  context: Context,
  serving: Serving,
  pod: boolean,
  { gpus: priced }: PriceBook,
) {
  const { entries, report, broken, around, own } = context
  const { predictor, devicesUsed, variants } = serving
  const { streams } = traitsOf(predictor)
  const offers = heldHere(context, serving)
  const named = [...own.gpus.map(({ name }) => name), ...(streams ? emulatedLlmGpus : emulatedGpus)]
  return buildSpace(
    withVariantParameter(entries, variants, context),
    {
      backend: entries.backend,
      devices: devicesUsed,
      predictor: pod ? 'pod' : predictor.kind,
      languageModel:
        streams &&
        (predictor.kind === 'builtin' ||
          (predictor.kind === 'command' && predictor.server !== undefined)),
      gguf: predictor.kind === 'builtin' && predictor.engine === 'gguf',
      split: variants.length === 0 ? splitOf(predictor, own) : undefined,
      cpuCores: around.machine.cpuCores,
      gpus: offers?.map(({ name }) => name) ?? named.filter((gpu) => priced[gpu]),
      offers,
      bound: boundHere(context, predictor),
      stored: around.stored,
    },
    report,
    own.gpus,
    broken.has('space') || broken.has('pin'),
  )
}

/**
 * The model of a named server that is modelled; undefined for one that is not known, which is said
 * elsewhere.
 */
function splitOf(predictor: PredictorTemplate, own: CustomDevices) {
  if (predictor.kind !== 'builtin' || predictor.standsFor === undefined) return undefined
  const architecture = languageModelOf(predictor.model, own)
  return architecture && { architecture, server: predictor.standsFor }
}

/**
 * This machine's GPUs where trials hold them. Those that neither the catalogue nor the user's file
 * knows are reported, unless the user chooses among others.
 */
function heldHere(
  { entries, report, around, own }: Context,
  { predictor, devicesUsed }: Serving,
): readonly GpuOffer[] | undefined {
  if (devicesUsed !== 'gpu' || entries.backend !== 'local' || !isStarted(predictor))
    return undefined
  const offers = gpusHere(around.machine, own.gpus)
  const known = offers.filter(({ name }) => isKnownGpu(name, own.gpus))
  if (known.length === 0 && offers.length > 0 && !asksForGpu(entries))
    reportUnknown(
      report,
      offers.map(({ name }) => name),
      around.machine.memoryMiB,
    )
  return offers.length === 0 ? undefined : known
}

/** What enforces a share of a GPU of this machine for this predictor. */
function boundHere({ entries, around }: Context, predictor: PredictorTemplate) {
  const tuned = Object.entries(entries.space ?? {}).map(([name, { category }]) => ({
    name,
    category: category ?? knownParameter(name)?.category ?? 'env',
  }))
  return around.machine.shareBound?.(
    predictor.kind === 'command' && limitsOwnGpuMemory(predictor, tuned),
  )
}

/**
 * Shares of this machine's GPUs must be enforced by something. @returns what a reader must know of
 * them
 */
function checkDivision(context: Context, serving: Serving, space: SearchSpace): readonly string[] {
  const { entries, report, around, own } = context
  if (
    around.stored ||
    serving.devicesUsed !== 'gpu' ||
    entries.backend !== 'local' ||
    !isStarted(serving.predictor)
  )
    return []
  const offers = gpusHere(around.machine, own.gpus)
  if (offers.length > 0) checkVisibility(report, serving.predictor.env)
  const share = space.parameters.find(({ name }) => name === 'gpuMemoryPercent')
  const shared =
    share !== undefined && (parameterValues(share) ?? [0]).some((percent) => Number(percent) < 100)
  const bound = boundHere(context, serving.predictor)
  if (shared && bound === undefined && offers.length > 0) {
    const at = Object.hasOwn(entries.pin ?? {}, 'gpuMemoryPercent') ? 'pin' : 'space'
    const sliced = [...new Set(offers.flatMap(({ slices }) => slices))]
    const hint =
      sliced.length > 0
        ? `use its MIG slices by their names: migProfile: [${sliced.join(', ')}]`
        : shareHint(offers.map(({ name }) => name))
    report(
      [at, 'gpuMemoryPercent'],
      'gpuMemoryPercent: nothing on this machine enforces a share of a GPU',
      hint,
    )
  }
  return divisionNotices(offers, bound, { shared, asked: asksForGpu(entries) }, own.gpus)
}

/** Whether the space can be had with what serves. @returns what a reader must know of it */
function checkSpace(
  context: Context,
  serving: Serving,
  model: ModelSpec,
  space: SearchSpace,
  book: PriceBook,
): readonly string[] {
  const { predictor, devicesUsed } = serving
  checkNoSecretChoices(context, space)
  checkGpus(context, space, devicesUsed, book)
  const divided = checkDivision(context, serving, space)
  checkArchitecture(context, model, predictor, devicesUsed, space)
  for (const check of [checkSequences, checkSpeculation, checkPools])
    check(context, predictor, space)
  checkTemplate(context, serving, space)
  return [...divided, ...poolNotices(predictor, space)]
}

function checkTemplate(context: Context, { predictor }: Serving, space: SearchSpace): void {
  if (isOwnPredictor(context.entries.kubernetes?.pod)) checkPodGpu(context, space)
  else if (predictor.kind === 'command')
    for (const problem of findTemplateProblems(predictor, space.parameters))
      reportTemplate(context, problem)
}

/** @param key of a file of the user's own GPUs or dimensions */
function checkReach(
  { entries, report }: Context,
  devicesUsed: Experiment['devicesUsed'],
  key: 'gpuCatalogue' | 'model',
): void {
  if (entries.backend === 'kubernetes' && devicesUsed === 'emulated')
    report(
      [key],
      'a predictor emulated in a cluster cannot read files of your own GPUs and dimensions',
      'use --backend local or simulated',
    )
}

function resolveLoad(
  context: Context,
  slo: Slo,
  { streams, timeoutMs }: ReturnType<typeof traitsOf>,
): Experiment['load'] {
  const { entries, report } = context
  const { arrivals, order } = resolveArrivals(context)
  const load: Experiment['load'] = {
    arrivals,
    payload: resolvePayload(context, order, streams),
    warmUp: resolveWarmUp(context),
    timeoutMs: entries.load.timeout ?? (streams ? timeoutMs : Math.max(2000, 10 * slo.limitMs)),
    trialSeconds: entries.load.trialTime / 1000,
    confirmSeconds: entries.load.confirmTime / 1000,
  }
  const longestMs = slo.limits?.find(({ metric }) => metric === 'e2e')?.limitMs ?? slo.limitMs
  if (load.timeoutMs <= longestMs && entries.load.timeout !== undefined)
    report(
      ['load', 'timeout'],
      `a timeout of ${load.timeoutMs} ms cuts off requests that meet the SLO of ${longestMs} ms`,
      'set it to several times the SLO',
    )
  return load
}

/**
 * The name of a model as a hub has it, organisation/name, which a server of one's own is asked for;
 * undefined where it is a path that is there, or anything else.
 */
function publishedName({
  entries,
}: FileContext): { readonly name: string; readonly path?: undefined } | undefined {
  const { model, predictor } = entries
  const isOwn =
    predictor?.command !== undefined ||
    predictor?.server !== undefined ||
    predictor?.url !== undefined
  if (
    !isOwn ||
    !protocolTable[askedProtocol(entries)].streams ||
    model?.path === undefined ||
    model.name !== undefined
  )
    return undefined
  return isAbsolute(model.path) ? undefined : { name: model.path }
}

/** @returns the model, and its architecture where it comes from a file; no list where that file cannot be used */
function resolveModel(files: FileContext): {
  model: ModelSpec
  architectures?: readonly Architecture[]
} {
  const { entries, report, broken } = files
  const given = publishedName(files) ?? entries.model ?? {}
  const { path } = given
  const asked = 'architecture' in given ? given.architecture : undefined
  const architecturePath = asked !== undefined && isDimensionsFile(asked) ? asked : undefined
  const name =
    ('name' in given ? given.name : undefined) ??
    (architecturePath ? nameOfDimensions(architecturePath) : asked) ??
    servedNames(files)[0] ??
    (path && basename(path).replace(/\.\w+$/, ''))
  if (path !== undefined && isMissing(path, files.around))
    report(
      ['model', 'path'],
      `model: no file or folder ${resolve(files.folderOf(['model']), path)}`,
      'a name must not contain / (except for your own server with protocol openai); paths are relative to the folder of the file that contains them',
    )
  if (!name && !broken.has('model'))
    report(['model'], 'no model', 'set one: --model bert, or `model: bert` in the file')
  const version = 'version' in given ? given.version : undefined
  if (architecturePath === undefined) {
    const counted = countedBy(path, asked)
    return {
      model: {
        name: name || 'unknown',
        architecture: counted?.name ?? asked ?? name ?? 'unknown',
        path,
        version,
      },
      architectures: counted ? [counted] : [],
    }
  }
  const architecture = resolveArchitecture(files, architecturePath, name || 'unknown')
  return {
    model: {
      name: name || 'unknown',
      architecture: name || 'unknown',
      architecturePath,
      path,
      version,
    },
    architectures: architecture && [architecture],
  }
}

/**
 * A model that goes by its own graph, not by another architecture; undefined for what is no ONNX
 * graph: whoever needs its counts says why there are none.
 */
function countedBy(path: string | undefined, asked: string | undefined): Architecture | undefined {
  if (!isOnnxFile(path) || (asked !== undefined && asked !== nameGraph(path))) return undefined
  try {
    return readGraphArchitecture(path)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

const graphNotice = (architectures: readonly Architecture[]): string[] =>
  architectures.flatMap((architecture) =>
    architecture.kind === 'graph' ? [`${describeCount(architecture)}.`] : [],
  )

const dimensionsNotice = ({ name, path, architecturePath }: ModelSpec): string[] =>
  architecturePath === undefined || path !== undefined
    ? []
    : [
        `tune knows only the dimensions of ${name}: specs need your own image that serves it (--image)`,
      ]

/** mine/config.json → mine; mine.json → mine. */
function nameOfDimensions(path: string): string {
  const own = basename(path).replace(/\.\w+$/, '')
  return own === 'config' ? basename(dirname(path)) : own
}

const traitsOf = (predictor: PredictorTemplate) =>
  protocolTable[predictor.kind === 'builtin' ? getBuiltinProtocol(predictor) : predictor.protocol]

function checkStop({ entries: { stop }, report }: Context): void {
  for (const key of ['tolerance', 'certainty'] as const)
    if (stop[key] <= 0 || stop[key] >= 1)
      report(
        ['stop', key],
        `${key} must be above 0 % and below 100 %`,
        `write e.g. ${defaults[key]}`,
      )
}

function checkedName({ entries, report }: Context, model: ModelSpec): string {
  const name = entries.name ?? model.name
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (name.length > 100 || /[\u0000-\u001f\u007f]/.test(name))
    report(
      entries.name === undefined ? ['model'] : ['name'],
      'the name is longer than 100 characters or has control characters',
      'choose a short name',
    )
  return name
}
