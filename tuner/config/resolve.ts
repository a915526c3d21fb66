/**
 * From merged entries to the effective experiment: defaults that depend on others, and everything
 * that a schema cannot see.
 */

import { existsSync } from 'node:fs'
import { basename, dirname, isAbsolute, resolve } from 'node:path'
import type { Slo } from '../../profiler/model/slo.ts'
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { parameterValues } from '../../search/space/space.ts'
import type { SearchSpace } from '../../search/types.ts'
import type { Architecture } from '../../trials/devices/architecture.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { countText, graphName, isOnnxFile } from '../../trials/devices/onnx/graph-architecture.ts'
import { readGraphArchitecture } from '../../trials/devices/onnx/graph-file.ts'
import type { OwnDevices } from '../../trials/devices/own.ts'
import { builtinProtocol } from '../../trials/launchers/builtin.ts'
import { boundsGpuMemory, templateProblems } from '../../trials/launchers/fill.ts'
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
import {
  checkArchitecture,
  checkGpus,
  checkNoSecretChoices,
  checkSequences,
} from './experiment-checks.ts'
import { documentOf, originsOf } from './experiment-document.ts'
import { resolveHeadroom, resolveObjective, resolveSlo } from './goal.ts'
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
import { type ExperimentEntries, isDimensionsFile } from './schema/experiment-schema.ts'
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
import type { BudgetSpec, ConfigProblem, Experiment, ModelSpec } from './types.ts'
import { parseDurationMs, parseShare } from './units.ts'
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
  const { entries } = merged
  const problems: ConfigProblem[] = []
  const report: Report = (path, what, hint) => {
    // What follows from not knowing what kind of predictor was meant is no fault of its own.
    if (byKind.has(path[0]) && isKindUnknown(broken)) return
    const origin = merged.layerOf(path)?.originOf(path)
    problems.push(problemAt(origin, fallback, path, what, hint))
  }
  const pathAt = (path: Path, value: string) =>
    isAbsolute(value) ? value : resolve(merged.layerOf(path)?.folder ?? around.cwd, value)
  const files: FileContext = { entries, report, pathAt, broken, around }

  const { model, architectures } = resolveModel(files)
  const catalogue = resolveGpus(files)
  const own: OwnDevices = { gpus: catalogue?.gpus ?? [], architectures: architectures ?? [] }
  const context: Context = {
    ...files,
    own,
    broken: architectures ? broken : new Set([...broken, 'model']),
  }
  const asked = resolvePredictor(context, model)
  const slo = resolveSlo(context, traitsOf(asked).streams)
  const headroom = resolveHeadroom(context)
  const objective = resolveObjective(context, headroom)
  const serving = resolveServing(context, asked, model, catalogue?.path)
  const { predictor, devicesUsed, variants } = serving
  const kubernetes = resolveKubernetes(context)
  const ownPod = isOwnPredictor(kubernetes?.pod)
  const prices = resolvePrices(context)
  const { space, pins } = resolveSpace(context, serving, ownPod, prices.book)
  const spaceNotices = checkSpace(context, serving, model, space, prices.book)
  if (catalogue?.path !== undefined) checkReach(context, devicesUsed, 'gpuCatalogue')
  else if (model.architecturePath !== undefined) checkReach(context, devicesUsed, 'model')
  const { load, trace } = resolveLoad(context, slo, traitsOf(predictor))
  const withoutSources: Omit<Experiment, 'document' | 'origins'> = {
    name: checkedName(context, model),
    model,
    slo,
    objective,
    headroom,
    maxJoulesPerRequest: entries.maxJoulesPerRequest,
    backend: backendOf(entries),
    devices: entries.devices ?? defaults.devices,
    devicesUsed,
    space,
    variants,
    minQuality: entries.minQuality,
    pins,
    predictor,
    kubernetes,
    load,
    metrics: resolveMetrics(context, predictor),
    answers: resolveAnswers(context),
    budget: resolveBudget(entries),
    stop: {
      tolerance: positiveShare(context, 'tolerance', parseShare(defaults.tolerance)),
      certainty: positiveShare(context, 'certainty', parseShare(defaults.certainty)),
      yearlyBill: entries.stop?.yearlyBill,
    },
    parallel: entries.parallel ?? defaults.parallel,
    seed: entries.seed ?? defaults.seed,
    sampler: entries.sampler ?? defaults.sampler,
    history: entries.history ?? true,
    own,
    calibration: entries.calibration,
    gpuCataloguePath: catalogue?.path,
    pricesPath: prices.path,
    dbPath:
      entries.db === undefined ? resolve(around.cwd, defaults.db) : pathAt(['db'], entries.db),
    outDir: entries.out === undefined ? undefined : pathAt(['out'], entries.out),
    outputs: outputTargets(entries.send),
    confirm: entries.confirm ?? true,
    notices: [
      ...variantNotices(variants, entries.minQuality),
      ...dimensionsNotice(model),
      ...graphNotice(own.architectures),
      ...spaceNotices,
      ...(load.arrivals.kind === 'trace' && load.arrivals.readAs !== undefined
        ? describeTrace(load.arrivals, load.arrivals.readAs, load.confirmSeconds)
        : []),
    ],
  }
  // An unreadable GPU file may have explained them.
  if (!catalogue) return { problems: problems.filter(({ what }) => !what.includes('unknown GPU')) }
  if (problems.length > 0) return { problems }
  const document = documentOf(withoutSources, trace, lengthsPathOf(files))
  return {
    experiment: { ...withoutSources, document, origins: originsOf(document, merged, devicesUsed) },
    problems,
  }
}

const lengthsPathOf = ({ entries, pathAt }: FileContext): string | undefined => {
  const lengths = entries.load?.payload?.lengths
  return lengths === undefined ? undefined : pathAt(['load', 'payload', 'lengths'], lengths)
}

const backendOf = ({ backend }: ExperimentEntries): Experiment['backend'] =>
  backend ?? defaults.backend

/** What serves, on which devices. */
type Serving = Pick<Experiment, 'predictor' | 'devicesUsed' | 'variants'>

/** @param gpuCatalogue absolute path of the user's own GPUs */
function resolveServing(
  context: Context,
  asked: PredictorTemplate,
  model: ModelSpec,
  gpuCatalogue: string | undefined,
): Serving {
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
  backendOf(entries) === 'local' && !around.stored ? { drivesGpus: around.machine.drivesGpus } : {}

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
      backend: backendOf(entries),
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
function splitOf(predictor: PredictorTemplate, own: OwnDevices) {
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
  if (devicesUsed !== 'gpu' || backendOf(entries) !== 'local' || !isStarted(predictor))
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
    predictor.kind === 'command' && boundsGpuMemory(predictor, tuned),
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
    backendOf(entries) !== 'local' ||
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
    for (const problem of templateProblems(predictor, space.parameters))
      reportTemplate(context, problem)
}

/** @param key of a file of the user's own GPUs or dimensions */
function checkReach(
  { entries, report }: Context,
  devicesUsed: Experiment['devicesUsed'],
  key: 'gpuCatalogue' | 'model',
): void {
  if (backendOf(entries) === 'kubernetes' && devicesUsed === 'emulated')
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
) {
  const { entries, report } = context
  const { arrivals, trace, order } = resolveArrivals(context)
  const load: Experiment['load'] = {
    arrivals,
    payload: resolvePayload(context, order, streams),
    warmUp: resolveWarmUp(context),
    timeoutMs: entries.load?.timeout ?? (streams ? timeoutMs : Math.max(2000, 10 * slo.limitMs)),
    trialSeconds: (entries.load?.trialTime ?? parseDurationMs(defaults.trialTime)) / 1000,
    confirmSeconds: (entries.load?.confirmTime ?? parseDurationMs(defaults.confirmTime)) / 1000,
  }
  const longestMs = slo.limits?.find(({ metric }) => metric === 'e2e')?.limitMs ?? slo.limitMs
  if (load.timeoutMs <= longestMs && entries.load?.timeout !== undefined)
    report(
      ['load', 'timeout'],
      `a timeout of ${load.timeoutMs} ms cuts off requests that meet the SLO of ${longestMs} ms`,
      'set it to several times the SLO',
    )
  return { load, trace }
}

/**
 * The name of a model as a hub has it, organisation/name, which a server of one's own is asked for;
 * undefined where it is a path that is there, or anything else.
 */
function publishedName({
  entries,
  pathAt,
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
  return /^[\w.-]+\/[\w.-]+$/.test(model.path) && !existsSync(pathAt(['model', 'path'], model.path))
    ? { name: model.path }
    : undefined
}

/** @returns the model, and its architecture where it comes from a file; no list where that file cannot be used */
function resolveModel(files: FileContext): {
  model: ModelSpec
  architectures?: readonly Architecture[]
} {
  const { entries, report, pathAt, broken } = files
  const given = publishedName(files) ?? entries.model ?? {}
  const path = given.path !== undefined ? pathAt(['model', 'path'], given.path) : undefined
  const asked = 'architecture' in given ? given.architecture : undefined
  const architecturePath =
    asked !== undefined && isDimensionsFile(asked)
      ? pathAt(['model', 'architecture'], asked)
      : undefined
  const name =
    ('name' in given ? given.name : undefined) ??
    (architecturePath ? nameOfDimensions(architecturePath) : asked) ??
    servedNames(files)[0] ??
    (path && basename(path).replace(/\.\w+$/, ''))
  if (path !== undefined && isMissing(path, files.around))
    report(
      ['model', 'path'],
      `model: no file or folder ${path}`,
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
  const architecture = resolveArchitecture(files, architecturePath, asked!, name || 'unknown')
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
  if (!isOnnxFile(path) || (asked !== undefined && asked !== graphName(path))) return undefined
  try {
    return readGraphArchitecture(path)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

const graphNotice = (architectures: readonly Architecture[]): string[] =>
  architectures.flatMap((architecture) =>
    architecture.kind === 'graph' ? [`${countText(architecture)}.`] : [],
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
  protocolTable[predictor.kind === 'builtin' ? builtinProtocol(predictor) : predictor.protocol]

function positiveShare(
  { entries, report }: Context,
  key: 'tolerance' | 'certainty',
  otherwise: number,
): number {
  const value = entries.stop?.[key] ?? otherwise
  if (value <= 0 || value >= 1)
    report(['stop', key], `${key} must be above 0 % and below 100 %`, `write e.g. ${defaults[key]}`)
  return value
}

function resolveBudget({ budget }: ExperimentEntries): BudgetSpec {
  return {
    maxTrials: budget?.maxTrials ?? defaults.maxTrials,
    timeLimitS: budget?.timeLimit === undefined ? undefined : budget.timeLimit / 1000,
    maxCost: budget?.cost,
  }
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
