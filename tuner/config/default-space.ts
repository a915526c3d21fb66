/**
 * The search space of an experiment: defaults for the machine and devices, the user's entries over
 * them, pins, conditions.
 */
import { createRng } from '../../search/rng.ts'
import {
  configurationAt,
  countGridCells,
  enumerateConfigurations,
  maxEnumeratedConfigurations,
  parameterValues,
  satisfiesConstraints,
} from '../../search/space/space.ts'
import type { Condition, Configuration, Parameter, SearchSpace } from '../../search/types.ts'
import type { Decoder } from '../../trials/devices/architecture.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { findCatalogueName, type ShareBound } from '../../trials/machine/gpu-offer.ts'
import { findClosestNames, suggestNames } from '../../trials/near-names.ts'
import type { LanguageServer } from '../../trials/servers/server-kinds.ts'
import { ConditionError, type ConditionNames, parseCondition } from './condition.ts'
import type { Report } from './context.ts'
import { powersOfTwo } from './flags/shorthand.ts'
import { divisions, type GpuOffer, pairings } from './gpus-here.ts'
import type { Backend } from './names.ts'
import { knownParameter, knownParameters, toParameter } from './parameters.ts'
import type { ParameterEntry } from './schema/experiment-schema.ts'
import { poolConditions } from './settings/pool-settings.ts'
import {
  type SplitParameter,
  splitConditions,
  splitParameters,
  usualSplits,
} from './tensor-parallel.ts'
import type { Path } from './yaml-file.ts'

/** What a default space depends on. */
interface SpaceSetting {
  readonly backend: Backend
  /** What the trials use, 'auto' decided. */
  readonly devices: 'cpu' | 'gpu' | 'emulated'
  /** 'pod': a pod template of the user's own. */
  readonly predictor: 'builtin' | 'command' | 'url' | 'imported' | 'pod'
  /** Served by the built-in predictor, or by a server whose arguments are written for it. */
  readonly languageModel?: boolean
  /**
   * A language model that llama.cpp runs here: it computes on the cores, and each sequence has its
   * part of the memory from the start.
   */
  readonly gguf?: boolean
  /**
   * Of a named server of language models that is modelled: GPUs of a replica are tuned, as far as
   * this one is split.
   */
  readonly split?: { readonly architecture: Decoder; readonly server: LanguageServer }
  readonly cpuCores: number
  /** Catalogue names to choose from: those in the machine, or those worth emulating. */
  readonly gpus: readonly string[]
  /**
   * This machine's GPUs, where the trials hold them; undefined: they are emulated, or a cluster's.
   */
  readonly offers?: readonly GpuOffer[]
  /** What enforces a share of those. */
  readonly bound?: ShareBound
  /** An experiment of a store: its space has every parameter. */
  readonly stored?: boolean
}

/** The parameters that are tuned where the user names no other values. */
function defaultSpace(setting: SpaceSetting): Record<string, ParameterEntry> {
  if (setting.predictor !== 'builtin' && setting.predictor !== 'command') return {}
  if (setting.gguf)
    return {
      cpuCores: {
        values: setting.backend === 'local' ? powersOfTwo(1, setting.cpuCores) : [1, 2, 4, 8],
      },
      ...(setting.devices !== 'cpu' && { gpu: { values: [...setting.gpus] } }),
      maxNumSeqs: { values: powersOfTwo(1, 16) },
      maxNumBatchedTokens: { values: powersOfTwo(128, 512) },
    }
  if (setting.languageModel) {
    const scheduling = {
      maxNumSeqs: { values: [16, 32, 64, 128, 256] },
      maxNumBatchedTokens: { values: powersOfTwo(512, 8192) },
    }
    const splits = setting.split && { gpus: { values: usualSplits(setting.split.architecture) } }
    const cores =
      setting.predictor === 'builtin' || setting.backend !== 'local' ? 1 : setting.cpuCores
    return {
      cpuCores: { values: [cores] },
      ...(setting.devices !== 'cpu' && { gpu: { values: [...setting.gpus] } }),
      ...splits,
      ...scheduling,
    }
  }
  const cores = setting.backend === 'local' ? powersOfTwo(1, setting.cpuCores) : [1, 2, 4, 8]
  const space: Record<string, ParameterEntry> = { cpuCores: { values: cores } }
  if (setting.devices !== 'cpu') {
    space.gpu = { values: [...setting.gpus] }
    Object.assign(space, divisions(setting.offers, setting.bound))
  }
  if (setting.predictor === 'builtin')
    space.batchSize = { values: powersOfTwo(1, setting.devices === 'cpu' ? 32 : 128) }
  return space
}

interface SpaceEntries {
  readonly space?: Readonly<Record<string, ParameterEntry>>
  readonly pin?: Readonly<Record<string, number | string>>
  readonly constraints?: readonly string[]
}

/** Dimensions of the sequences that searches start from (search/halton.ts). */
const mostParameters = 20

/**
 * Builds the space. Everything wrong is reported with its path in the experiment file; the space
 * returned then lacks what was wrong.
 * @param broken whether a part of the entries was refused before: then names that are missing are
 * not reported again.
 * @returns the space, with the entry that each of its parameters was made from
 */
export function buildSpace(
  entries: SpaceEntries,
  setting: SpaceSetting,
  report: Report,
  ownGpus: readonly Gpu[] = [],
  broken = false,
): { space: SearchSpace; pins: Configuration; written: Record<string, ParameterEntry> } {
  const user = entries.space ?? {}
  const pin = entries.pin ?? {}
  const offers = setting.offers?.filter(({ name }) =>
    chosenGpus(user, pin, setting.gpus, ownGpus).includes(name),
  )
  const defaults = defaultSpace({ ...setting, offers })
  if (Object.hasOwn(user, 'migProfile') || Object.hasOwn(pin, 'migProfile'))
    delete defaults.gpuMemoryPercent
  const all = ordered([
    ...new Set([
      ...(setting.stored ? [] : Object.keys(defaults)),
      ...Object.keys(user),
      ...Object.keys(pin),
    ]),
  ])
  const tooMany = all.length > mostParameters
  if (tooMany)
    report(
      ['space'],
      `${all.length} parameters exceed the maximum of ${mostParameters}`,
      'remove the least important ones, and put fixed values into the predictor',
    )
  // The rest are not looked at: there may be thousands.
  const names = all.slice(0, mostParameters)
  const parameters: Parameter[] = []
  const written: Record<string, ParameterEntry> = {}
  const conditionNames = new Map<string, 'number' | readonly string[]>()
  const pins: Record<string, number | string> = {}
  let refused = broken || tooMany

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
    const made =
      Object.hasOwn(defaults, name) || Object.hasOwn(user, name)
        ? toParameter(name, entry, ownGpus)
        : { faults: [] }
    for (const fault of made.faults)
      report(fault.at ? [...at, fault.at] : at, `${name}: ${fault.what}`, fault.hint)
    if (made.faults.length > 0) {
      refused = true
      continue
    }
    const { parameter, from } = Object.hasOwn(pin, name)
      ? pinned(name, pin[name]!, entry, made.parameter, Object.hasOwn(user, name), ownGpus, report)
      : { parameter: made.parameter, from: entry }
    if (!parameter) {
      refused = true
      continue
    }
    if (Object.hasOwn(pin, name)) pins[name] = parameterValues(parameter)![0]!
    if (
      setting.backend === 'local' &&
      setting.predictor !== 'url' &&
      setting.predictor !== 'imported'
    )
      checkCores(parameter, setting.cpuCores, Object.hasOwn(pin, name) ? ['pin', name] : at, report)
    const condition = conditionOf(
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

  const own = entries.constraints ?? []
  const paired =
    setting.stored || Object.hasOwn(user, 'migProfile')
      ? []
      : pairings(offers ?? [], namesOf(parameters, 'gpu'), namesOf(parameters, 'migProfile'))
  const split =
    setting.stored || setting.split === undefined
      ? []
      : splitsOf(setting.split.architecture, parameters, ownGpus)
  const pooled = setting.stored ? [] : poolConditions(parameters, setting.split?.server)
  const constraints = [...own, ...paired, ...split, ...pooled].flatMap((text, i) =>
    refused && mentionsUnknown(text, conditionNames)
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
 * Standard names in their usual order, then the user's own in the order they were written:
 * conditions may name only what stands before.
 */
function ordered(names: readonly string[]): string[] {
  const standard = knownParameters.map((known) => known.name).filter((name) => names.includes(name))
  return [...standard, ...names.filter((name) => !standard.includes(name))]
}

function checkName(
  name: string,
  entry: ParameterEntry,
  declared: boolean,
  setting: SpaceSetting,
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
  const own = declared && (entry.category !== undefined || setting.predictor !== 'builtin')
  const meant = own && entry.category === undefined ? misspelt(name) : undefined
  if (meant)
    report(
      at,
      `'${name}' looks like ${meant}`,
      `write ${meant}, or add category: env if ${name} is your own parameter`,
    )
  if (knownParameter(name) || own) return meant === undefined
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
 * The standard parameter that a name nearly is: other case or hyphens, or a slip or two. Names in
 * capitals are environment variables, and meant so.
 */
function misspelt(name: string): string | undefined {
  if (knownParameter(name) || name === name.toUpperCase() || name.length < 5) return undefined
  const names = knownParameters.map((known) => known.name)
  return findClosestNames(name, names).find((known) => Math.abs(known.length - name.length) <= 2)
}

/**
 * The parameter held at one value; a value outside what the user listed is refused, one outside a
 * default is taken.
 */
function pinned(
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
  const made = toParameter(name, from, ownGpus)
  for (const fault of made.faults) report(['pin', name], `${name}: ${fault.what}`, fault.hint)
  if (!made.parameter || !parameter || !declared) return { parameter: made.parameter, from }
  const held = parameterValues(made.parameter)![0]!
  const near = nearestValues(parameter, held)
  if (near === undefined) return { parameter: made.parameter, from }
  report(
    ['pin', name],
    `${name}: ${held} is outside its values ${describeDomain(parameter)}`,
    `nearest: ${near.join(', ')}`,
  )
  return { from }
}

/** Undefined where the value is one of the parameter's. */
function nearestValues(
  parameter: Parameter,
  value: number | string,
): (number | string)[] | undefined {
  const values = parameterValues(parameter)
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

/** '1, 2, 4', '1..32', '1..9 step 2': as people write it. */
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
    ...((parameterValues(parameter) ?? [(parameter as { max: number }).max]) as number[]),
  )
  if (highest > cpuCores)
    report(
      at,
      `cpuCores: ${highest} cores, but this machine has ${cpuCores}`,
      'use fewer, or use --backend simulated or kubernetes',
    )
}

/** Catalogue names of the GPUs that the user chooses, or of all that there are. */
function chosenGpus(
  user: Readonly<Record<string, ParameterEntry>>,
  pin: Readonly<Record<string, number | string>>,
  all: readonly string[],
  ownGpus: readonly Gpu[],
): readonly string[] {
  const chosen = Object.hasOwn(pin, 'gpu') ? [pin.gpu!] : user.gpu?.values
  return chosen === undefined ? all : chosen.map((name) => findCatalogueName(String(name), ownGpus))
}

const namesOf = (parameters: readonly Parameter[], name: string): readonly string[] =>
  parameters.flatMap((parameter) =>
    parameter.name === name && parameter.kind === 'categorical' ? parameter.values : [],
  )

/**
 * Of GPUs and their number, where both are choices; what decides over memory beside them may be
 * held, and is not tuned.
 */
function splitsOf(
  architecture: Decoder,
  parameters: readonly Parameter[],
  ownGpus: readonly Gpu[],
): string[] {
  const splitsBy = (name: SplitParameter) => {
    const splits = parameters.find((parameter) => parameter.name === name)
    return splits === undefined
      ? undefined
      : parameterValues(splits)?.filter((value) => typeof value === 'number')
  }
  const beside = parameters
    .filter(({ name }) => memoryNames.has(name))
    .map((one) => [one.name, parameterValues(one) ?? []] as const)
  const gpus = beside.some(([, values]) => values.length !== 1)
    ? []
    : namesOf(parameters, 'gpu').filter((name) => name !== 'none')
  const held = Object.fromEntries(
    beside.flatMap(([name, [value]]) => (value === undefined ? [] : [[name, value]])),
  )
  return splitParameters.flatMap((name) =>
    splitConditions(architecture, { name, gpus, splits: splitsBy(name) ?? [], held }, ownGpus),
  )
}

const memoryNames: ReadonlySet<string> = new Set([
  'precision',
  'quantization',
  'kvCacheDtype',
  'maxModelLen',
  'gpuMemoryUtilization',
  'gpuMemoryPercent',
  'migProfile',
])

/**
 * What the user says, else for what divides a GPU that there is one, for decode servers that there
 * are some, beside the default's own condition.
 */
function conditionOf(
  name: string,
  entry: ParameterEntry,
  said: boolean,
  before: readonly Parameter[],
): string | undefined {
  if (
    !said &&
    name === 'decodeGpus' &&
    before.some((parameter) => parameter.name === 'decodeReplicas')
  )
    return 'decodeReplicas > 0'
  if (said || !dividing.has(name)) return entry.when
  const both = [sharesNothing(before), entry.when].filter((condition) => condition !== undefined)
  return both.length === 0 ? undefined : both.join(' and ')
}

const dividing: ReadonlySet<string> = new Set(['gpuMemoryPercent', 'migProfile'])

/** A share of a GPU means nothing where there is none. */
function sharesNothing(before: readonly Parameter[]): string | undefined {
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

const mentionsUnknown = (text: string, names: ConditionNames): boolean => {
  try {
    parseCondition(text, names)
    return false
  } catch (error) {
    if (error instanceof ConditionError) return error.kind === 'no-parameter'
    throw error
  }
}

const drawn = 20_000

function checkNotEmpty(space: SearchSpace, report: Report): void {
  if (space.constraints.length === 0) return
  const whole = countGridCells(space) <= maxEnumeratedConfigurations
  const without = { ...space, constraints: [] }
  const rng = createRng('is the space empty?')
  const sample = whole
    ? enumerateConfigurations(without)
    : Array.from({ length: drawn }, () =>
        configurationAt(
          without,
          space.parameters.map(() => rng.next()),
        ),
      )
  if (sample.some((configuration) => satisfiesConstraints(space, configuration))) return
  const which = whole
    ? `none of its ${sample.length} configurations satisfies`
    : `none of ${drawn} sampled configurations satisfies`
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
