/**
 * Resolves merged settings into the effective experiment: dependent defaults, and all checks beyond
 * the schema.
 */

import { basename, dirname, isAbsolute, resolve } from 'node:path'
import type { Slo } from '../../profiler/model/slo.ts'
import type { PayloadSource } from '../../profiler/payload-source.ts'
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { getMetric } from '../../search/objective.ts'
import { listParameterValues } from '../../search/space/space.ts'
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
import { limitsOwnGpuMemory } from '../../trials/launchers/fill.ts'
import { isStarted, type PredictorTemplate } from '../../trials/launchers/template.ts'
import { findTemplateProblems } from '../../trials/launchers/template-problems.ts'
import type { PriceBook } from '../../trials/prices/book.ts'
import {
  type Context,
  type HostContext,
  isMissing,
  type Report,
  type SettingsContext,
} from './context.ts'
import { buildSpace } from './default-space.ts'
import { resolveOrigins } from './describe-experiment.ts'
import {
  checkArchitecture,
  checkGpus,
  checkNoSecretChoices,
  checkSequences,
} from './experiment-checks.ts'
import { resolveObjective, resolveSlo } from './goal.ts'
import {
  resolveArchitecture,
  resolveArrivals,
  resolveGpus,
  resolvePayload,
  resolvePrices,
  resolveWarmUp,
} from './input-files.ts'
import { checkPod, isUserPredictor, resolveKubernetes } from './kubernetes-settings.ts'
import { createConfigProblem, isKindUnknown, type Merged } from './layers.ts'
import {
  checkGpuVisibility,
  describeGpuDivision,
  formatShareHint,
  isKnownGpu,
  type LocalGpu,
  listLocalGpus,
  reportUnknownGpus,
} from './local-gpus.ts'
import { defaults } from './names.ts'
import { findKnownParameter } from './parameters.ts'
import {
  findLanguageModel,
  isGpuChosen,
  reportTemplateProblem,
  resolveBuiltin,
  resolveDevices,
  resolvePredictor,
  resolveProtocol,
} from './predictor-template.ts'
import { type Settings, writeDocument } from './schema/experiment-schema.ts'
import { isDimensionsFile } from './schema/model-schema.ts'
import { listOutputTargets } from './schema/output-schema.ts'
import { listServedNames } from './served-model.ts'
import { resolveAnswers } from './settings/answer-settings.ts'
import { resolveMetrics } from './settings/metric-settings.ts'
import { checkPools, describePools } from './settings/pool-settings.ts'
import { checkSpeculation } from './settings/speculation-settings.ts'
import {
  addVariantParameter,
  applyVariants,
  describeLeftOutVariants,
  resolveVariants,
} from './settings/variant-settings.ts'
import { describeTrace } from './trace.ts'
import { type ConfigProblem, type Experiment, type ModelSpec, pickPlainSettings } from './types.ts'
import type { Path } from './yaml-file.ts'

/** Emulated GPUs by default: one of each price class that clouds offer. */
const emulatedGpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
/** Emulated GPUs for language models, which need more memory and bandwidth. */
const emulatedLlmGpus = ['L4', 'A10G', 'L40S', 'A100-80GB', 'H100']

/** Keys whose meaning depends on the kind of predictor. */
const kindDependentKeys: ReadonlySet<unknown> = new Set([
  'predictor',
  'devices',
  'backend',
  'kubernetes',
])

/**
 * @param fallback place of problems without an origin: the file's name or 'command line'
 * @param invalidKeys keys that were rejected before, so they are not missing
 * @returns the experiment, or all problems
 */
export function resolveExperiment(
  merged: Merged,
  fallback: string,
  invalidKeys: ReadonlySet<string>,
  host: HostContext,
): { experiment?: Experiment; problems: ConfigProblem[] } {
  const { settings: entries } = merged
  const problems: ConfigProblem[] = []
  const report: Report = (path, what, hint) => {
    // An unknown kind of predictor is already reported: skip the problems that it causes.
    if (kindDependentKeys.has(path[0]) && isKindUnknown(invalidKeys)) return
    problems.push(createConfigProblem(merged.findOrigin(path), fallback, path, what, hint))
  }
  const resolveFolder = (path: Path) => merged.findLayer(path)?.folder ?? host.cwd
  const files: SettingsContext = { entries, report, resolveFolder, invalidKeys, host }

  const { model, architectures } = resolveModel(files)
  const ownGpus = resolveGpus(files)
  const own: CustomDevices = { gpus: ownGpus ?? [], architectures: architectures ?? [] }
  const context: Context = {
    ...files,
    own,
    invalidKeys: architectures ? invalidKeys : new Set([...invalidKeys, 'model']),
  }
  const template = resolvePredictor(context, model)
  const slo = resolveSlo(context, findProtocolTraits(template).streams)
  const objective = resolveObjective(context)
  const serving = resolveServer(context, template, model)
  const { predictor, devicesUsed, variants } = serving
  const kubernetes = resolveKubernetes(context)
  const prices = resolvePrices(context)
  const { space, pins, written } = resolveSpace(
    context,
    serving,
    isUserPredictor(kubernetes?.pod),
    prices,
  )
  const spaceNotices = checkSpace(context, serving, model, space, prices)
  if (entries.gpuCatalogue !== undefined) checkFileAccess(context, devicesUsed, 'gpuCatalogue')
  else if (model.architecturePath !== undefined) checkFileAccess(context, devicesUsed, 'model')
  const load = resolveLoad(context, slo, findProtocolTraits(predictor))
  const name = resolveName(context, model)
  checkStop(context)
  const metrics = resolveMetrics(context, predictor)
  const answers = resolveAnswers(context)
  // The GPU file is unreadable, which is already reported: it may define the unknown GPUs.
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
    predictor: { ...entries.predictor, ...fillPredictor(predictor) },
    kubernetes: kubernetes && {
      ...entries.kubernetes,
      container: kubernetes.container,
      port: kubernetes.port,
    },
    load: {
      ...entries.load,
      payload: { ...entries.load.payload, ...fillPayload(load.payload) },
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
    outputs: listOutputTargets(settings.send),
    notices: [
      ...describeLeftOutVariants(variants, entries.minQuality),
      ...describeDimensions(model),
      ...describeGraphs(own.architectures),
      ...spaceNotices,
      ...(load.arrivals.kind === 'trace' && load.arrivals.readAs !== undefined
        ? describeTrace(load.arrivals, load.arrivals.readAs, load.confirmSeconds)
        : []),
    ],
    settings,
    document,
    origins: resolveOrigins(document, merged, devicesUsed),
  }
  return { experiment, problems }
}

/** Settings of the predictor that were resolved, for the document. */
function fillPredictor(predictor: PredictorTemplate): Settings['predictor'] {
  const { kind, protocol } = predictor
  if (kind === 'imported') return { kind, protocol }
  const ready =
    predictor.readyTimeoutS === undefined ? {} : { readyTimeout: predictor.readyTimeoutS * 1000 }
  if (kind === 'builtin') return { kind, protocol, engine: predictor.engine, ...ready }
  if (kind === 'url') return { kind, protocol, ...ready }
  const command = predictor.command.length > 0 ? { command: [...predictor.command] } : {}
  return { kind, protocol, ...command, cwd: predictor.cwd, ...ready }
}

/** Settings of the payload that were resolved, for the document. */
function fillPayload(payload: PayloadSource): Settings['load']['payload'] {
  if (payload.kind !== 'generated') return {}
  const { count, prompts } = payload
  const isSampled = prompts !== undefined && !prompts.recorded && !prompts.classes && !prompts.file
  return {
    count,
    ...(isSampled && { inputTokens: prompts.inputTokens, outputTokens: prompts.outputTokens }),
  }
}

/** The predictor, its devices and its variants. */
type ServerSetup = Pick<Experiment, 'predictor' | 'devicesUsed' | 'variants'>

function resolveServer(context: Context, asked: PredictorTemplate, model: ModelSpec): ServerSetup {
  const { gpuCatalogue } = context.entries
  const devicesUsed = resolveDevices(context, asked, model)
  const variants = resolveVariants(context, asked.kind, devicesUsed)
  if (asked.kind !== 'builtin') return { predictor: asked, devicesUsed, variants }
  const predictor = applyVariants(
    resolveBuiltin(asked, model, devicesUsed, { gpuCatalogue, ...pickGpuDrivers(context) }),
    variants,
    model,
    devicesUsed,
  )
  return { predictor, devicesUsed, variants }
}

/** Picks the engines that can use local GPUs, if trials run on this machine. */
const pickGpuDrivers = ({ entries, host }: Context) =>
  entries.backend === 'local' && !host.isStored ? { drivesGpus: host.machine.drivesGpus } : {}

function resolveSpace(
  context: Context,
  serving: ServerSetup,
  pod: boolean,
  { gpus: priced }: PriceBook,
) {
  const { entries, report, invalidKeys, host, own } = context
  const { predictor, devicesUsed, variants } = serving
  const { streams } = findProtocolTraits(predictor)
  const localGpus = resolveLocalGpus(context, serving)
  const defaultGpus = [
    ...own.gpus.map(({ name }) => name),
    ...(streams ? emulatedLlmGpus : emulatedGpus),
  ]
  return buildSpace(
    addVariantParameter(entries, variants, context),
    {
      backend: entries.backend,
      devices: devicesUsed,
      predictor: pod ? 'pod' : predictor.kind,
      languageModel:
        streams &&
        (predictor.kind === 'builtin' ||
          (predictor.kind === 'command' && predictor.server !== undefined)),
      gguf: predictor.kind === 'builtin' && predictor.engine === 'gguf',
      split: variants.length === 0 ? resolveTensorParallelServer(predictor, own) : undefined,
      cpuCores: host.machine.cpuCores,
      gpus: localGpus?.map(({ name }) => name) ?? defaultGpus.filter((gpu) => priced[gpu]),
      localGpus,
      bound: resolveShareBound(context, predictor),
      isStored: host.isStored,
    },
    report,
    own.gpus,
    invalidKeys.has('space') || invalidKeys.has('pin'),
  )
}

/**
 * Finds the language-model server whose GPUs per replica are tuned by default, and its
 * architecture. Undefined for other predictors, and for an unknown architecture, which
 * `checkArchitecture` reports.
 */
function resolveTensorParallelServer(predictor: PredictorTemplate, own: CustomDevices) {
  if (predictor.kind !== 'builtin' || predictor.standsFor === undefined) return undefined
  const architecture = findLanguageModel(predictor.model, own)
  return architecture && { architecture, server: predictor.standsFor }
}

/**
 * GPUs of this machine, if trials run on them. Unknown models are reported, unless the user chose
 * other GPUs.
 */
function resolveLocalGpus(
  { entries, report, host, own }: Context,
  { predictor, devicesUsed }: ServerSetup,
): readonly LocalGpu[] | undefined {
  if (devicesUsed !== 'gpu' || entries.backend !== 'local' || !isStarted(predictor))
    return undefined
  const localGpus = listLocalGpus(host.machine, own.gpus)
  const knownGpus = localGpus.filter(({ name }) => isKnownGpu(name, own.gpus))
  if (knownGpus.length === 0 && localGpus.length > 0 && !isGpuChosen(entries))
    reportUnknownGpus(
      report,
      localGpus.map(({ name }) => name),
      host.machine.memoryMiB,
    )
  return localGpus.length === 0 ? undefined : knownGpus
}

/** Resolves the mechanism that enforces a share of a local GPU for this predictor. */
function resolveShareBound({ entries, host }: Context, predictor: PredictorTemplate) {
  const tuned = Object.entries(entries.space ?? {}).map(([name, { category }]) => ({
    name,
    category: category ?? findKnownParameter(name)?.category ?? 'env',
  }))
  return host.machine.shareBound?.(
    predictor.kind === 'command' && limitsOwnGpuMemory(predictor, tuned),
  )
}

/**
 * Reports shares of a local GPU that nothing enforces.
 * @returns notices on how GPUs are divided
 */
function checkGpuDivision(
  context: Context,
  serving: ServerSetup,
  space: SearchSpace,
): readonly string[] {
  const { entries, report, host, own } = context
  if (
    host.isStored ||
    serving.devicesUsed !== 'gpu' ||
    entries.backend !== 'local' ||
    !isStarted(serving.predictor)
  )
    return []
  const localGpus = listLocalGpus(host.machine, own.gpus)
  if (localGpus.length > 0) checkGpuVisibility(report, serving.predictor.env)
  const share = space.parameters.find(({ name }) => name === 'gpuMemoryPercent')
  const shared =
    share !== undefined &&
    (listParameterValues(share) ?? [0]).some((percent) => Number(percent) < 100)
  const bound = resolveShareBound(context, serving.predictor)
  if (shared && bound === undefined && localGpus.length > 0) {
    const at = Object.hasOwn(entries.pin ?? {}, 'gpuMemoryPercent') ? 'pin' : 'space'
    const sliced = [...new Set(localGpus.flatMap(({ slices }) => slices))]
    const hint =
      sliced.length > 0
        ? `use its MIG slices by their names: migProfile: [${sliced.join(', ')}]`
        : formatShareHint(localGpus.map(({ name }) => name))
    report(
      [at, 'gpuMemoryPercent'],
      'gpuMemoryPercent: nothing on this machine enforces a share of a GPU',
      hint,
    )
  }
  return describeGpuDivision(localGpus, bound, { shared, asked: isGpuChosen(entries) }, own.gpus)
}

/**
 * Checks the space against the predictor and its devices.
 * @returns notices
 */
function checkSpace(
  context: Context,
  serving: ServerSetup,
  model: ModelSpec,
  space: SearchSpace,
  book: PriceBook,
): readonly string[] {
  const { predictor, devicesUsed } = serving
  checkNoSecretChoices(context, space)
  checkGpus(context, space, devicesUsed, book)
  const divided = checkGpuDivision(context, serving, space)
  checkArchitecture(context, model, predictor, devicesUsed, space)
  for (const check of [checkSequences, checkSpeculation, checkPools])
    check(context, predictor, space)
  checkTemplate(context, serving, space)
  return [...divided, ...describePools(predictor, space)]
}

function checkTemplate(context: Context, { predictor }: ServerSetup, space: SearchSpace): void {
  const { calledStages } = context.host
  if (isUserPredictor(context.entries.kubernetes?.pod)) checkPod(context, space)
  else if (predictor.kind === 'command')
    for (const problem of findTemplateProblems(predictor, space.parameters, calledStages))
      reportTemplateProblem(context, problem)
}

/** Emulated predictors in a cluster cannot read the user's GPU and architecture files. */
function checkFileAccess(
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
  { streams, timeoutMs }: ReturnType<typeof findProtocolTraits>,
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
 * Finds the hub name (organisation/name) under which the user's own server knows the model;
 * undefined for a path.
 */
function findHubName({
  entries,
}: SettingsContext): { readonly name: string; readonly path?: undefined } | undefined {
  const { model, predictor } = entries
  const isOwn =
    predictor?.command !== undefined ||
    predictor?.server !== undefined ||
    predictor?.url !== undefined
  if (
    !isOwn ||
    !protocolTable[resolveProtocol(entries)].streams ||
    model?.path === undefined ||
    model.name !== undefined
  )
    return undefined
  return isAbsolute(model.path) ? undefined : { name: model.path }
}

/**
 * @returns the model, and its architecture if a file defines it; no list if that file is unusable
 */
function resolveModel(files: SettingsContext): {
  model: ModelSpec
  architectures?: readonly Architecture[]
} {
  const { entries, report, invalidKeys } = files
  const model = findHubName(files) ?? entries.model ?? {}
  const { path } = model
  const architectureName = 'architecture' in model ? model.architecture : undefined
  const architecturePath =
    architectureName !== undefined && isDimensionsFile(architectureName)
      ? architectureName
      : undefined
  const name =
    ('name' in model ? model.name : undefined) ??
    (architecturePath ? deriveModelName(architecturePath) : architectureName) ??
    listServedNames(files)[0] ??
    (path && basename(path).replace(/\.\w+$/, ''))
  if (path !== undefined && isMissing(path, files.host))
    report(
      ['model', 'path'],
      `model: no file or folder ${resolve(files.resolveFolder(['model']), path)}`,
      'a name must not contain / (except for your own server with protocol openai); paths are relative to the folder of the file that contains them',
    )
  if (!name && !invalidKeys.has('model'))
    report(['model'], 'no model', 'set one: --model bert, or `model: bert` in the file')
  const version = 'version' in model ? model.version : undefined
  if (architecturePath === undefined) {
    const graphArchitecture = readOnnxArchitecture(path, architectureName)
    return {
      model: {
        name: name || 'unknown',
        architecture: graphArchitecture?.name ?? architectureName ?? name ?? 'unknown',
        path,
        version,
      },
      architectures: graphArchitecture ? [graphArchitecture] : [],
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
 * Reads the architecture counted from the model's own ONNX graph; undefined if there is none.
 * Checks that need it report why.
 */
function readOnnxArchitecture(
  path: string | undefined,
  asked: string | undefined,
): Architecture | undefined {
  if (!isOnnxFile(path) || (asked !== undefined && asked !== nameGraph(path))) return undefined
  try {
    return readGraphArchitecture(path)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

const describeGraphs = (architectures: readonly Architecture[]): string[] =>
  architectures.flatMap((architecture) =>
    architecture.kind === 'graph' ? [`${describeCount(architecture)}.`] : [],
  )

const describeDimensions = ({ name, path, architecturePath }: ModelSpec): string[] =>
  architecturePath === undefined || path !== undefined
    ? []
    : [
        `tune knows only the dimensions of ${name}: specs need your own image that serves it (--image)`,
      ]

/** mine/config.json → mine; mine.json → mine. */
function deriveModelName(path: string): string {
  const fileName = basename(path).replace(/\.\w+$/, '')
  return fileName === 'config' ? basename(dirname(path)) : fileName
}

const findProtocolTraits = (predictor: PredictorTemplate) =>
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

function resolveName({ entries, report }: Context, model: ModelSpec): string {
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
