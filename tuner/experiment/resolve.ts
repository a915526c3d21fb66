/** From merged entries to the effective experiment: defaults that depend on others, and everything that a schema cannot see. */

import { existsSync } from 'node:fs'
import { basename, dirname, isAbsolute, resolve } from 'node:path'
import { protocolNames, protocolTable } from '../../profiler/protocols/protocol-table.ts'
import type { Slo } from '../../profiler/types.ts'
import { asksOf, defaultKind, kindsAsking, type Objective, type ObjectiveKind, objectiveOf } from '../../search/objective.ts'
import type { Architecture } from '../../trials/devices/architecture.ts'
import type { OwnDevices } from '../../trials/devices/own.ts'
import { builtinProtocol } from '../../trials/launchers/builtin.ts'
import { templateProblems } from '../../trials/launchers/fill.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import type { Context, FileContext, Report, Surroundings } from './context.ts'
import { buildSpace } from './default-space.ts'
import { checkArchitecture, checkGpus } from './experiment-checks.ts'
import { documentOf, originsOf } from './experiment-document.ts'
import { type ExperimentEntries, isDimensionsFile } from './experiment-schema.ts'
import { checkPodGpu, resolveKubernetes } from './kubernetes-settings.ts'
import { type Merged, showOrigin } from './layers.ts'
import { defaults } from './names.ts'
import { limitsOf, type SloEntry, sloOf } from './parse-slo.ts'
import { builtinFor, reportTemplate, resolveDevices, resolvePredictor } from './predictor-template.ts'
import { resolveArchitecture, resolveArrivals, resolveGpus, resolvePayload, resolvePrices } from './sources.ts'
import type { BudgetSpec, ConfigProblem, Experiment, ModelSpec } from './types.ts'
import { parseDurationMs, parsePercentile, parseShare } from './units.ts'
import { resolveVariants, variantNotices, variantSettings, withVariantParameter } from './variant-settings.ts'
import type { Path } from './yaml-file.ts'

/** GPUs worth emulating where the user names none: of each price class one that clouds rent out. */
const emulatedGpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
/** The same for language models, which need the memory and its bandwidth. */
const emulatedLlmGpus = ['L4', 'A10G', 'L40S', 'A100-80GB', 'H100']

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
    const origin = merged.layerOf(path)?.originOf(path)
    problems.push({ where: origin ? showOrigin(origin) : fallback, what, hint })
  }
  const pathAt = (path: Path, value: string) => (isAbsolute(value) ? value : resolve(merged.layerOf(path)?.folder ?? around.cwd, value))
  const files: FileContext = { entries, report, pathAt, broken, around }

  const { model, architectures } = resolveModel(files)
  const catalogue = resolveGpus(files)
  const own: OwnDevices = { gpus: catalogue?.gpus ?? [], architectures: architectures ?? [] }
  const context: Context = { ...files, own, broken: architectures ? broken : new Set([...broken, 'model']) }
  const asked = resolvePredictor(context, model)
  const slo = resolveSlo(context, asked)
  const headroom = resolveHeadroom(context)
  const objective = resolveObjective(context, headroom)
  const backend = entries.backend ?? defaults.backend
  const devicesUsed = resolveDevices(context, asked)
  const variants = resolveVariants(context, asked.kind, devicesUsed)
  const predictor =
    asked.kind === 'builtin' ? variantSettings(builtinFor(asked, model, devicesUsed, catalogue?.path), variants, model, devicesUsed) : asked
  const { streams, timeoutMs } = traitsOf(predictor)
  const kubernetes = resolveKubernetes(context)
  const prices = resolvePrices(context)
  const gpus =
    devicesUsed === 'gpu' && around.machine.gpus.length > 0
      ? [...new Set(around.machine.gpus)]
      : [...new Set([...own.gpus.map(({ name }) => name), ...(streams ? emulatedLlmGpus : emulatedGpus)])].filter(
          (gpu) => prices.book.gpus[gpu],
        )
  const { space, pins } = buildSpace(
    withVariantParameter(entries, variants, context),
    {
      backend,
      devices: devicesUsed,
      predictor: kubernetes?.pod ? 'pod' : predictor.kind,
      languageModel: predictor.kind === 'builtin' && streams,
      cpuCores: around.machine.cpuCores,
      gpus,
    },
    report,
    own.gpus,
    broken.has('space') || broken.has('pin'),
  )
  checkGpus(context, space, devicesUsed, prices.book)
  checkArchitecture(context, model, predictor, devicesUsed, space)
  if (kubernetes?.pod) checkPodGpu(context, space)
  else if (predictor.kind === 'command')
    for (const problem of templateProblems(predictor, space.parameters)) reportTemplate(context, problem)

  if (backend === 'kubernetes' && devicesUsed === 'emulated' && (catalogue?.path ?? model.architecturePath) !== undefined)
    report(
      [catalogue?.path === undefined ? 'model' : 'gpuCatalogue'],
      'files of your own GPUs and dimensions do not reach a predictor that is emulated in a cluster',
      'use --backend local or simulated',
    )

  const { arrivals, tracePath, order } = resolveArrivals(context)
  const load = {
    arrivals,
    payload: resolvePayload(context, order, streams),
    timeoutMs: entries.load?.timeout ?? (streams ? timeoutMs : Math.max(2000, 10 * slo.limitMs)),
    trialSeconds: (entries.load?.trialTime ?? parseDurationMs(defaults.trialTime)) / 1000,
    confirmSeconds: (entries.load?.confirmTime ?? parseDurationMs(defaults.confirmTime)) / 1000,
  }
  const longestMs = slo.limits?.find(({ metric }) => metric === 'e2e')?.limitMs ?? slo.limitMs
  if (load.timeoutMs <= longestMs && entries.load?.timeout !== undefined)
    report(
      ['load', 'timeout'],
      `a timeout of ${load.timeoutMs} ms cuts off requests that keep the SLO of ${longestMs} ms`,
      'make it several times the SLO',
    )
  const withoutSources: Omit<Experiment, 'document' | 'origins'> = {
    name: checkedName(context, model),
    model,
    slo,
    objective,
    headroom,
    backend,
    devices: entries.devices ?? defaults.devices,
    devicesUsed,
    space,
    variants,
    minQuality: entries.minQuality,
    pins,
    predictor,
    kubernetes,
    load,
    budget: resolveBudget(entries),
    stop: {
      tolerance: positiveShare(context, 'tolerance', parseShare(defaults.tolerance)),
      certainty: positiveShare(context, 'certainty', parseShare(defaults.certainty)),
    },
    parallel: entries.parallel ?? defaults.parallel,
    seed: entries.seed ?? defaults.seed,
    sampler: entries.sampler ?? defaults.sampler,
    history: entries.history ?? true,
    own,
    gpuCataloguePath: catalogue?.path,
    pricesPath: prices.path,
    dbPath: entries.db === undefined ? resolve(around.cwd, defaults.db) : pathAt(['db'], entries.db),
    outDir: entries.out === undefined ? undefined : pathAt(['out'], entries.out),
    confirm: entries.confirm ?? true,
    notices: [...variantNotices(variants, entries.minQuality), ...dimensionsNotice(model)],
  }
  // Names that an unreadable GPU file may have explained.
  if (!catalogue) return { problems: problems.filter(({ what }) => !what.includes('unknown GPU')) }
  if (problems.length > 0) return { problems }
  const lengths = entries.load?.payload?.lengths
  const document = documentOf(
    withoutSources,
    tracePath,
    lengths === undefined ? undefined : pathAt(['load', 'payload', 'lengths'], lengths),
  )
  return { experiment: { ...withoutSources, document, origins: originsOf(document, merged, devicesUsed) }, problems }
}

/** @returns the model, and its architecture where it comes from a file; no list where that file cannot be used */
function resolveModel(files: FileContext): { model: ModelSpec; architectures?: readonly Architecture[] } {
  const { entries, report, pathAt, broken } = files
  const given = entries.model ?? {}
  const path = given.path !== undefined ? pathAt(['model', 'path'], given.path) : undefined
  const asked = 'architecture' in given ? given.architecture : undefined
  const architecturePath = asked !== undefined && isDimensionsFile(asked) ? pathAt(['model', 'architecture'], asked) : undefined
  const name =
    ('name' in given ? given.name : undefined) ??
    (architecturePath ? nameOfDimensions(architecturePath) : asked) ??
    (path && basename(path).replace(/\.\w+$/, ''))
  if (path !== undefined && !existsSync(path))
    report(
      ['model', 'path'],
      `model: no file or folder ${path}`,
      'a model by name has no / in it; a path starts from the folder of the file that names it',
    )
  if (!name && !broken.has('model')) report(['model'], 'no model', 'say which: --model bert, or `model: bert` in the file')
  const version = 'version' in given ? given.version : undefined
  if (architecturePath === undefined)
    return { model: { name: name || 'unknown', architecture: asked ?? name ?? 'unknown', path, version }, architectures: [] }
  const architecture = resolveArchitecture(files, architecturePath, asked!, name || 'unknown')
  return {
    model: { name: name || 'unknown', architecture: name || 'unknown', architecturePath, path, version },
    architectures: architecture && [architecture],
  }
}

const dimensionsNotice = ({ name, path, architecturePath }: ModelSpec): string[] =>
  architecturePath === undefined || path !== undefined
    ? []
    : [`${name} is known by its dimensions alone: specs need an image of yours that serves it (--image)`]

/** mine/config.json → mine; mine.json → mine. */
function nameOfDimensions(path: string): string {
  const own = basename(path).replace(/\.\w+$/, '')
  return own === 'config' ? basename(dirname(path)) : own
}

const traitsOf = (predictor: PredictorTemplate) =>
  protocolTable[predictor.kind === 'builtin' ? builtinProtocol(predictor) : predictor.protocol]

function resolveSlo({ entries, report, broken }: Context, predictor: PredictorTemplate): Slo {
  const entry: SloEntry = entries.slo ?? {}
  const { percentile, errorRate, limit } = entry
  const limits = limitsOf(entry)
  if (limits.length === 0 && !broken.has('slo'))
    report(['slo'], 'no SLO', 'say which latency to keep: --slo 50ms, or `slo: 50ms` in the file')
  const maxErrorRate = errorRate ?? parseShare(defaults.errorRate)
  if (maxErrorRate >= 1) report(['slo', 'errorRate'], 'an error rate of 100 % lets every request fail', `write e.g. ${defaults.errorRate}`)
  for (const { metric } of limits)
    if (metric !== 'e2e' && !traitsOf(predictor).streams)
      report(
        ['slo', entry[metric] === undefined ? 'metric' : metric],
        `${metric} is a latency of streamed answers`,
        `use it with protocol ${protocolNames.filter((name) => protocolTable[name].streams).join(', ')}, or leave it out`,
      )
  // A request could keep the one and miss the other of two limits of one latency.
  const metric = entry.metric ?? 'e2e'
  if (limit !== undefined && entry[metric] !== undefined) report(['slo', 'limit'], `two limits of ${metric}`, 'keep the stricter one')
  const all = limits.length > 0 ? limits : [{ metric: 'e2e', limitMs: 1 } as const]
  return sloOf(all, percentile ?? parsePercentile(defaults.percentile), maxErrorRate)
}

function resolveHeadroom({ entries, report }: Context): number {
  const headroom = entries.headroom ?? parseShare(defaults.headroom)
  if (headroom >= 1) report(['headroom'], 'a headroom of 100 % leaves no capacity', `write less, e.g. ${defaults.headroom}`)
  return headroom
}

function positiveShare({ entries, report }: Context, key: 'tolerance' | 'certainty', otherwise: number): number {
  const value = entries.stop?.[key] ?? otherwise
  if (value <= 0 || value >= 1) report(['stop', key], `${key} must be above 0 % and below 100 %`, `write e.g. ${defaults[key]}`)
  return value
}

function resolveObjective({ entries, report, broken }: Context, headroom: number): Objective {
  const { demand, maxPricePerHour } = entries
  const kind: ObjectiveKind = entries.objective ?? (demand === undefined ? defaultKind.plain : defaultKind.withDemand)
  const asks = asksOf(kind)
  const bounded = kindsAsking('price bound').join(' or ')
  if (demand !== undefined && asks !== 'demand')
    report(
      ['demand'],
      `a demand does nothing for the objective ${kind}`,
      `leave the demand out, or use objective ${kindsAsking('demand').join(' or ')}`,
    )
  if (maxPricePerHour !== undefined && asks !== 'price bound')
    report(['maxPricePerHour'], `a price bound does nothing for the objective ${kind}`, `use it with --objective ${bounded}`)
  if (asks === 'demand' && demand === undefined && !broken.has('demand'))
    report(['objective'], `${kind} needs a demand`, 'say how many requests per second: --rps 500, or `demand: 500 rps`')
  if (asks === 'price bound' && maxPricePerHour === undefined && !broken.has('maxPricePerHour'))
    report(['objective'], `${kind} needs a bound of the price`, 'say how much: --max-price $2, or `maxPricePerHour: $2`')
  return objectiveOf(kind, { demandRps: demand ?? 1, headroom, maxPricePerHour: maxPricePerHour ?? 1 })
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
