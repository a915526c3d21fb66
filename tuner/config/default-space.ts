/**
 * The search space of an experiment: defaults for the machine and devices, the user's entries over
 * them, pins, conditions.
 */
import { createRng } from '../../search/rng.ts'
import {
  countGridCells,
  decodeConfiguration,
  enumerateConfigurations,
  listParameterValues,
  maxEnumeratedConfigurations,
  satisfiesConstraints,
} from '../../search/space/space.ts'
import type { Condition, Configuration, Parameter, SearchSpace } from '../../search/types.ts'
import type { Decoder } from '../../trials/devices/architecture.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { findCatalogueName, type ShareBound } from '../../trials/machine/gpu-offer.ts'
import { findClosestNames, suggestNames } from '../../trials/near-names.ts'
import type { LanguageServer } from '../../trials/servers/server-kinds.ts'
import type { Report } from './context.ts'
import { buildMigConditions, type LocalGpu, listDivisionParameters } from './local-gpus.ts'
import type { Backend } from './names.ts'
import { buildParameter, findKnownParameter, knownParameters } from './parameters.ts'
import type { ParameterEntry } from './schema/parameter-schema.ts'
import { buildPoolConditions } from './settings/pool-settings.ts'
import { ConditionError, type ConditionNames, parseCondition } from './values/condition.ts'
import { listPowersOfTwo } from './values/shorthand.ts'
import {
  listDefaultSplits,
  type SplitParameter,
  splitConditions,
  splitParameters,
} from './values/tensor-parallel.ts'
import type { Path } from './yaml-file.ts'

/** Facts that determine the default search space. */
interface SpaceContext {
  readonly backend: Backend
  /** Devices of the trials, with 'auto' resolved. */
  readonly devices: 'cpu' | 'gpu' | 'emulated'
  /** 'pod': the user's own pod template. */
  readonly predictor: 'builtin' | 'command' | 'url' | 'imported' | 'pod'
  /** A language model on the built-in predictor, or on a server with a preset. */
  readonly languageModel?: boolean
  /**
   * A GGUF model, which llama.cpp runs on CPU cores. It reserves the memory of every sequence at
   * start.
   */
  readonly gguf?: boolean
  /**
   * Set for a simulated or emulated server preset: the GPUs per replica (tensor parallelism) are
   * then tuned.
   */
  readonly split?: { readonly architecture: Decoder; readonly server: LanguageServer }
  readonly cpuCores: number
  /** Catalogue names of the GPUs of this machine, or of the default emulated ones. */
  readonly gpus: readonly string[]
  /** GPUs of this machine, if trials run on them; undefined for emulated or cluster GPUs. */
  readonly localGpus?: readonly LocalGpu[]
  /** Mechanism that enforces a share of a local GPU. */
  readonly bound?: ShareBound
  /** The entries come from the trial store and are complete. */
  readonly isStored?: boolean
}

/** Parameters that are tuned unless the user sets other values. */
function buildDefaultSpace(setting: SpaceContext): Record<string, ParameterEntry> {
  if (setting.predictor !== 'builtin' && setting.predictor !== 'command') return {}
  if (setting.gguf)
    return {
      cpuCores: {
        values: setting.backend === 'local' ? listPowersOfTwo(1, setting.cpuCores) : [1, 2, 4, 8],
      },
      ...(setting.devices !== 'cpu' && { gpu: { values: [...setting.gpus] } }),
      maxNumSeqs: { values: listPowersOfTwo(1, 16) },
      maxNumBatchedTokens: { values: listPowersOfTwo(128, 512) },
    }
  if (setting.languageModel) {
    const scheduling = {
      maxNumSeqs: { values: [16, 32, 64, 128, 256] },
      maxNumBatchedTokens: { values: listPowersOfTwo(512, 8192) },
    }
    const splits = setting.split && {
      gpus: { values: listDefaultSplits(setting.split.architecture) },
    }
    const cores =
      setting.predictor === 'builtin' || setting.backend !== 'local' ? 1 : setting.cpuCores
    return {
      cpuCores: { values: [cores] },
      ...(setting.devices !== 'cpu' && { gpu: { values: [...setting.gpus] } }),
      ...splits,
      ...scheduling,
    }
  }
  const cores = setting.backend === 'local' ? listPowersOfTwo(1, setting.cpuCores) : [1, 2, 4, 8]
  const space: Record<string, ParameterEntry> = { cpuCores: { values: cores } }
  if (setting.devices !== 'cpu') {
    space.gpu = { values: [...setting.gpus] }
    Object.assign(space, listDivisionParameters(setting.localGpus, setting.bound))
  }
  if (setting.predictor === 'builtin')
    space.batchSize = { values: listPowersOfTwo(1, setting.devices === 'cpu' ? 32 : 128) }
  return space
}

interface SpaceEntries {
  readonly space?: Readonly<Record<string, ParameterEntry>>
  readonly pin?: Readonly<Record<string, number | string>>
  readonly constraints?: readonly string[]
}

/** Dimensions of the Halton sequence of the initial design (search/space). */
export const maxParameters = 20

/**
 * Builds the search space. Problems are reported with their path in the experiment file, and the
 * returned space omits the affected parameters.
 * @param hasInvalidEntries whether entries were rejected before: missing names are then not
 * reported again
 * @returns the space, and the entry behind each of its parameters
 */
export function buildSpace(
  entries: SpaceEntries,
  setting: SpaceContext,
  report: Report,
  ownGpus: readonly Gpu[] = [],
  hasInvalidEntries = false,
): { space: SearchSpace; pins: Configuration; written: Record<string, ParameterEntry> } {
  const user = entries.space ?? {}
  const pin = entries.pin ?? {}
  const localGpus = setting.localGpus?.filter(({ name }) =>
    listChosenGpus(user, pin, setting.gpus, ownGpus).includes(name),
  )
  const defaults = buildDefaultSpace({ ...setting, localGpus })
  if (Object.hasOwn(user, 'migProfile') || Object.hasOwn(pin, 'migProfile'))
    delete defaults.gpuMemoryPercent
  const all = sortNames([
    ...new Set([
      ...(setting.isStored ? [] : Object.keys(defaults)),
      ...Object.keys(user),
      ...Object.keys(pin),
    ]),
  ])
  const tooMany = all.length > maxParameters
  if (tooMany)
    report(
      ['space'],
      `${all.length} parameters exceed the maximum of ${maxParameters}`,
      'remove the least important ones, and put fixed values into the predictor',
    )
  // Further parameters are not checked: there may be thousands.
  const names = all.slice(0, maxParameters)
  const parameters: Parameter[] = []
  const written: Record<string, ParameterEntry> = {}
  const conditionNames = new Map<string, 'number' | readonly string[]>()
  const pins: Record<string, number | string> = {}
  let refused = hasInvalidEntries || tooMany

  for (const name of names) {
    const at: Path = Object.hasOwn(user, name) ? ['space', name] : ['pin', name]
    const entry: ParameterEntry = {
      ...defaults[name],
      ...(user[name] && hasDomain(user[name]) ? { values: undefined } : {}),
      ...user[name],
    }
    if (!checkName(name, entry, Object.hasOwn(user, name), setting, names, at, report)) {
      refused = true
      continue
    }
    const result =
      Object.hasOwn(defaults, name) || Object.hasOwn(user, name)
        ? buildParameter(name, entry, ownGpus)
        : { faults: [] }
    for (const fault of result.faults)
      report(fault.at ? [...at, fault.at] : at, `${name}: ${fault.what}`, fault.hint)
    if (result.faults.length > 0) {
      refused = true
      continue
    }
    const { parameter, from } = Object.hasOwn(pin, name)
      ? createPinParameter(
          name,
          pin[name]!,
          entry,
          result.parameter,
          Object.hasOwn(user, name),
          ownGpus,
          report,
        )
      : { parameter: result.parameter, from: entry }
    if (!parameter) {
      refused = true
      continue
    }
    if (Object.hasOwn(pin, name)) pins[name] = listParameterValues(parameter)![0]!
    if (
      setting.backend === 'local' &&
      setting.predictor !== 'url' &&
      setting.predictor !== 'imported'
    )
      checkCores(parameter, setting.cpuCores, Object.hasOwn(pin, name) ? ['pin', name] : at, report)
    const condition = resolveCondition(
      name,
      entry,
      Object.hasOwn(user, name) && user[name]?.when !== undefined,
      parameters,
    )
    const when =
      condition === undefined
        ? undefined
        : readCondition(condition, conditionNames, [...at, 'when'], report)
    parameters.push(when ? { ...parameter, when } : parameter)
    written[name] = when ? { ...from, when: when.text } : from
    conditionNames.set(name, parameter.kind === 'categorical' ? parameter.values : 'number')
  }

  const userConstraints = entries.constraints ?? []
  const paired =
    setting.isStored || Object.hasOwn(user, 'migProfile')
      ? []
      : buildMigConditions(
          localGpus ?? [],
          listCategories(parameters, 'gpu'),
          listCategories(parameters, 'migProfile'),
        )
  const split =
    setting.isStored || setting.split === undefined
      ? []
      : buildSplitConditions(setting.split.architecture, parameters, ownGpus)
  const pooled = setting.isStored ? [] : buildPoolConditions(parameters, setting.split?.server)
  const constraints = [...userConstraints, ...paired, ...split, ...pooled].flatMap((text, i) =>
    refused && hasUnknownParameter(text, conditionNames)
      ? []
      : (readCondition(text, conditionNames, ['constraints', i], report) ?? []),
  )
  const space = { parameters, constraints }
  checkNotEmpty(space, report)
  return { space, pins, written }
}

const hasDomain = (entry: ParameterEntry) =>
  entry.values !== undefined || entry.min !== undefined || entry.max !== undefined

/**
 * Standard names in their usual order, then the user's own in file order. A condition may name only
 * earlier parameters.
 */
function sortNames(names: readonly string[]): string[] {
  const standard = knownParameters.map((known) => known.name).filter((name) => names.includes(name))
  return [...standard, ...names.filter((name) => !standard.includes(name))]
}

function checkName(
  name: string,
  entry: ParameterEntry,
  declared: boolean,
  setting: SpaceContext,
  names: readonly string[],
  at: Path,
  report: Report,
): boolean {
  const candidates = [
    ...new Set([
      ...names.filter((other) => other !== name),
      ...knownParameters.map((known) => known.name),
    ]),
  ]
  if (!/^[A-Za-z_][\w.-]*$/.test(name)) {
    report(
      at,
      `'${name}' is not a valid parameter name`,
      'use letters, digits, _ . and -, and do not start with a digit',
    )
    return false
  }
  if (setting.predictor === 'url' && declared) {
    report(
      at,
      `${name}: tune cannot set parameters of a running server`,
      'pin the resources it runs on (pin: {cpuCores: 2, gpu: T4}), or set a command that starts it',
    )
    return false
  }
  const isUserParameter =
    declared && (entry.category !== undefined || setting.predictor !== 'builtin')
  const meant = isUserParameter && entry.category === undefined ? findIntendedName(name) : undefined
  if (meant)
    report(
      at,
      `'${name}' looks like ${meant}`,
      `write ${meant}, or add category: env if ${name} is your own parameter`,
    )
  if (findKnownParameter(name) || isUserParameter) return meant === undefined
  if (!declared) report(at, `no parameter is called '${name}'`, suggestNames(name, candidates))
  else
    report(
      at,
      `the built-in predictor has no parameter '${name}'`,
      `${suggestNames(name, candidates).replace(/\?$/, '')}; or add category: env to pass it as an environment variable`,
    )
  return false
}

/**
 * Finds the standard parameter that a name probably misspells. Names in capitals are environment
 * variables and are left alone.
 */
function findIntendedName(name: string): string | undefined {
  if (findKnownParameter(name) || name === name.toUpperCase() || name.length < 5) return undefined
  const names = knownParameters.map((known) => known.name)
  return findClosestNames(name, names).find((known) => Math.abs(known.length - name.length) <= 2)
}

/**
 * Creates the parameter fixed at one value. A value outside the user's own list is rejected; one
 * outside a default list is accepted.
 */
function createPinParameter(
  name: string,
  value: number | string,
  entry: ParameterEntry,
  parameter: Parameter | undefined,
  declared: boolean,
  ownGpus: readonly Gpu[],
  report: Report,
): { parameter?: Parameter; from: ParameterEntry } {
  const from: ParameterEntry = {
    values: [value],
    category: entry.category,
    monotone: entry.monotone,
    concurrency: entry.concurrency,
    kind: parameter?.kind === 'categorical' ? 'categorical' : undefined,
  }
  const result = buildParameter(name, from, ownGpus)
  for (const fault of result.faults) report(['pin', name], `${name}: ${fault.what}`, fault.hint)
  if (!result.parameter || !parameter || !declared) return { parameter: result.parameter, from }
  const held = listParameterValues(result.parameter)![0]!
  const near = listNearestValues(parameter, held)
  if (near === undefined) return { parameter: result.parameter, from }
  report(
    ['pin', name],
    `${name}: ${held} is outside its values ${describeDomain(parameter)}`,
    `nearest: ${near.join(', ')}`,
  )
  return { from }
}

/** Undefined if the value is one of the parameter's. */
function listNearestValues(
  parameter: Parameter,
  value: number | string,
): (number | string)[] | undefined {
  const values = listParameterValues(parameter)
  if (values?.includes(value)) return undefined
  if (typeof value === 'string' || parameter.kind === 'categorical')
    return values?.slice(0, 12) ?? []
  const numbers = (values ?? [
    (parameter as { min: number }).min,
    (parameter as { max: number }).max,
  ]) as number[]
  if (!values && value >= numbers[0]! && value <= numbers[1]!) return undefined
  const below = numbers.filter((number) => number < value)
  const above = numbers.filter((number) => number > value)
  return [
    ...(below.length > 0 ? [Math.max(...below)] : []),
    ...(above.length > 0 ? [Math.min(...above)] : []),
  ]
}

/** '1, 2, 4', '1..32' or '1..9 step 2'. */
export function describeDomain(parameter: Parameter): string {
  if (parameter.kind === 'ordinal' || parameter.kind === 'categorical')
    return parameter.values.join(', ')
  const step =
    parameter.step === undefined || (parameter.kind === 'int' && parameter.step === 1)
      ? ''
      : ` step ${parameter.step}`
  return `${parameter.min}..${parameter.max}${step}`
}

function checkCores(parameter: Parameter, cpuCores: number, at: Path, report: Report): void {
  if (parameter.name !== 'cpuCores') return
  const highest = Math.max(
    ...((listParameterValues(parameter) ?? [(parameter as { max: number }).max]) as number[]),
  )
  if (highest > cpuCores)
    report(
      at,
      `cpuCores: ${highest} cores, but this machine has ${cpuCores}`,
      'use fewer, or use --backend simulated or kubernetes',
    )
}

/** Catalogue names of the GPUs that the user chooses, or of all available ones. */
function listChosenGpus(
  user: Readonly<Record<string, ParameterEntry>>,
  pin: Readonly<Record<string, number | string>>,
  all: readonly string[],
  ownGpus: readonly Gpu[],
): readonly string[] {
  const chosen = Object.hasOwn(pin, 'gpu') ? [pin.gpu!] : user.gpu?.values
  return chosen === undefined ? all : chosen.map((name) => findCatalogueName(String(name), ownGpus))
}

const listCategories = (parameters: readonly Parameter[], name: string): readonly string[] =>
  parameters.flatMap((parameter) =>
    parameter.name === name && parameter.kind === 'categorical' ? parameter.values : [],
  )

/**
 * Conditions on GPU model and GPUs per replica that exclude splits which cannot start. Parameters
 * that change the memory demand are considered only if they have a single value.
 */
function buildSplitConditions(
  architecture: Decoder,
  parameters: readonly Parameter[],
  ownGpus: readonly Gpu[],
): string[] {
  const listSplits = (name: SplitParameter) => {
    const splits = parameters.find((parameter) => parameter.name === name)
    return splits === undefined
      ? undefined
      : listParameterValues(splits)?.filter((value) => typeof value === 'number')
  }
  const memorySettings = parameters
    .filter(({ name }) => memoryParameters.has(name))
    .map((one) => [one.name, listParameterValues(one) ?? []] as const)
  const gpus = memorySettings.some(([, values]) => values.length !== 1)
    ? []
    : listCategories(parameters, 'gpu').filter((name) => name !== 'none')
  const fixed = Object.fromEntries(
    memorySettings.flatMap(([name, [value]]) => (value === undefined ? [] : [[name, value]])),
  )
  return splitParameters.flatMap((name) =>
    splitConditions(architecture, { name, gpus, splits: listSplits(name) ?? [], fixed }, ownGpus),
  )
}

const memoryParameters: ReadonlySet<string> = new Set([
  'precision',
  'quantization',
  'kvCacheDtype',
  'maxModelLen',
  'gpuMemoryUtilization',
  'gpuMemoryPercent',
  'migProfile',
])

/**
 * Resolves the user's condition. Without one, GPU shares require a GPU and decodeGpus requires
 * decode servers, in addition to the default's condition.
 */
function resolveCondition(
  name: string,
  entry: ParameterEntry,
  isWritten: boolean,
  before: readonly Parameter[],
): string | undefined {
  if (
    !isWritten &&
    name === 'decodeGpus' &&
    before.some((parameter) => parameter.name === 'decodeReplicas')
  )
    return 'decodeReplicas > 0'
  if (isWritten || !gpuDivisionParameters.has(name)) return entry.when
  const both = [buildGpuCondition(before), entry.when].filter(
    (condition) => condition !== undefined,
  )
  return both.length === 0 ? undefined : both.join(' and ')
}

const gpuDivisionParameters: ReadonlySet<string> = new Set(['gpuMemoryPercent', 'migProfile'])

/** A share of a GPU means nothing where there is none. */
function buildGpuCondition(before: readonly Parameter[]): string | undefined {
  const gpu = before.find((parameter) => parameter.name === 'gpu')
  return gpu?.kind === 'categorical' && gpu.values.includes('none') && gpu.values.length > 1
    ? "gpu != 'none'"
    : undefined
}

function readCondition(
  text: string,
  names: ConditionNames,
  at: Path,
  report: Report,
): Condition | undefined {
  try {
    return parseCondition(text, names)
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error
    report(
      at,
      `'${text.length > 200 ? `${text.slice(0, 100)}…` : text}': ${error.message} (character ${error.offset + 1})`,
      error.hint,
    )
    return undefined
  }
}

/** Conditions over some parameters. */
export const buildConditions = (
  texts: readonly string[],
  parameters: readonly Parameter[],
  report: Report,
): Condition[] => {
  const names = new Map(
    parameters.map(
      (one) => [one.name, one.kind === 'categorical' ? one.values : 'number'] as const,
    ),
  )
  return texts.flatMap((text, i) => readCondition(text, names, ['constraints', i], report) ?? [])
}

const hasUnknownParameter = (text: string, names: ConditionNames): boolean => {
  try {
    parseCondition(text, names)
    return false
  } catch (error) {
    if (error instanceof ConditionError) return error.kind === 'no-parameter'
    throw error
  }
}

/** Configurations that are sampled to find one that satisfies the constraints. */
const maxSampledConfigurations = 20_000

/** Reports a space whose constraints leave no configuration. */
export function checkNotEmpty(space: SearchSpace, report: Report): void {
  if (space.constraints.length === 0) return
  const whole = countGridCells(space) <= maxEnumeratedConfigurations
  const without = { ...space, constraints: [] }
  const rng = createRng('is the space empty?')
  const sample = whole
    ? enumerateConfigurations(without)
    : Array.from({ length: maxSampledConfigurations }, () =>
        decodeConfiguration(
          without,
          space.parameters.map(() => rng.next()),
        ),
      )
  if (sample.some((configuration) => satisfiesConstraints(space, configuration))) return
  const which = whole
    ? `none of its ${sample.length} configurations satisfies`
    : `none of ${maxSampledConfigurations} sampled configurations satisfies`
  const alone = space.constraints.filter(
    (constraint) => !sample.some((configuration) => constraint.holds(configuration)),
  )
  if (alone.length > 0)
    for (const constraint of alone)
      report(
        ['constraints'],
        `the space is empty: ${which} '${constraint.text}'`,
        'loosen it, or widen the parameters it names',
      )
  else
    report(
      ['constraints'],
      `the space is empty: ${which} all of ${space.constraints.map((c) => `'${c.text}'`).join(', ')}`,
      'loosen one of them',
    )
}
