/**
 * Layers of settings (defaults, file, environment, flags): each is validated against the schema,
 * then merged, keeping the origin of every value.
 */
import type { z } from 'zod'
import { latencyMetricNames } from '../../profiler/model/latency-metrics.ts'
import { findClosestNames, suggestNames } from '../../trials/near-names.ts'
import { resolveUnionIssues } from '../../trials/yaml.ts'
import { parseFlagNames } from './flags/flag-entries.ts'
import { experimentFlags } from './flags/flags.ts'
import {
  createExperimentJsonSchema,
  type ExperimentEntries,
  experimentFileSchema,
  type Settings,
} from './schema/experiment-schema.ts'
import type { ParameterEntry } from './schema/parameter-schema.ts'
import { parseOnce, withBaseFolder } from './schema/schema-parts.ts'
import type { ConfigProblem, Origin } from './types.ts'
import type { Layer, Path } from './yaml-file.ts'

export const joinPath = (path: Path): string => path.join('.')

export function showOrigin(origin: Origin): string {
  switch (origin.kind) {
    case 'default':
      return origin.reason ? `default (${origin.reason})` : 'default'
    case 'file':
      return `${origin.file}:${origin.line}:${origin.column}`
    case 'environment':
      return `$${origin.variable}`
    case 'flag':
      return origin.flag
    case 'given':
      return 'experiment'
    case 'stored':
      return `experiment ${origin.id}`
  }
}

/** Repeatable flags with named entries: a problem must name the entry. */
const namedEntryFlags = new Set(
  experimentFlags.filter(({ gather }) => gather).map((flag) => parseFlagNames(flag).long),
)

/**
 * Creates a problem with the value at a path. For a flag the path is omitted: '--slo: '50' has no
 * unit', not '--slo: slo.limit: ...'.
 */
export function createConfigProblem(
  origin: Origin | undefined,
  fallback: string,
  path: Path,
  what: string,
  hint: string,
): ConfigProblem {
  if (!origin) return { where: fallback, what, hint }
  const where = showOrigin(origin)
  if (origin.kind !== 'flag' || namedEntryFlags.has(origin.flag)) return { where, what, hint }
  const prefix = path
    .flatMap((_, i) => [joinPath(path.slice(0, i + 1)), String(path[i])])
    .map((name) => `${name}: `)
    .find((name) => what.startsWith(name))
  return { where, what: prefix ? what.slice(prefix.length) : what, hint }
}

/** Creates a layer whose values all have one origin. */
export const createUniformLayer = (raw: unknown, origin: Origin, folder: string): Layer => ({
  raw,
  findOrigin: () => origin,
  findKeyOrigin: () => origin,
  folder,
})

/**
 * A validated layer and its problems. Invalid values are left out of `entries`, so that the rest
 * can be checked further.
 */
interface CheckedLayer {
  readonly entries: ExperimentEntries
  readonly problems: readonly ConfigProblem[]
  /**
   * Top-level keys with invalid values, so that they are not also reported as missing. For the
   * predictor also the inner key: 'predictor.command'.
   */
  readonly invalidKeys: ReadonlySet<string>
}

export function checkLayer(layer: Layer): CheckedLayer {
  const raw = structuredClone(layer.raw)
  const problems: ConfigProblem[] = []
  const invalidKeys = new Set<string>()
  for (;;) {
    const parsed = withBaseFolder(layer.folder, () =>
      experimentFileSchema.safeParse(raw, parseOnce),
    )
    if (parsed.success) return { entries: parsed.data, problems, invalidKeys }
    const issues = parsed.error.issues.flatMap((issue) => resolveUnionIssues(issue))
    for (const issue of issues) {
      problems.push(...describeIssue(issue, layer))
      if (issue.path[0] === 'predictor')
        for (const key of listInvalidPredictorKeys(issue)) invalidKeys.add(key)
      if (issue.path.length > 0) invalidKeys.add(String(issue.path[0]))
      else if (issue.code === 'unrecognized_keys')
        for (const key of issue.keys.slice(0, maxKeysNamed))
          for (const meant of findClosestNames(key, topKeys)) invalidKeys.add(meant)
    }
    const nothing = issues.some(
      (issue) => issue.path.length === 0 && issue.code !== 'unrecognized_keys',
    )
    if (nothing) return { entries: {}, problems, invalidKeys: new Set(topKeys) }
    for (const issue of issues) removeInvalid(raw, issue)
  }
}

/** Keys of `predictor` that determine its kind. */
const predictorKindKeys: readonly string[] = [
  'kind',
  'command',
  'server',
  'url',
  'urls',
  'engine',
  'from',
]

/** Whether invalid keys leave the kind of predictor unknown. */
export const isKindUnknown = (invalidKeys: ReadonlySet<string>): boolean =>
  predictorKindKeys.some((key) => invalidKeys.has(`predictor.${key}`))

function listInvalidPredictorKeys(issue: Issue): string[] {
  const key = issue.path[1]
  if (key !== undefined) return [`predictor.${String(key)}`]
  const meant =
    issue.code === 'unrecognized_keys'
      ? issue.keys
          .slice(0, maxKeysNamed)
          .flatMap((unknown) => findClosestNames(unknown, predictorKindKeys))
      : ['kind']
  return meant.map((name) => `predictor.${name}`)
}

const topKeys = Object.keys(experimentFileSchema.shape)

type Issue = z.core.$ZodIssue

/** Unknown keys of one map that are listed; more have the same cause. */
const maxKeysNamed = 20

function describeIssue(issue: Issue, layer: Layer): ConfigProblem[] {
  const path = issue.path as Path
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, maxKeysNamed).map((key, i) => ({
      where: formatPlace(layer.findKeyOrigin([...path, key])),
      what: `unknown key '${joinPath([...path, key])}'${i === maxKeysNamed - 1 && issue.keys.length > maxKeysNamed ? `, and ${issue.keys.length - maxKeysNamed} more` : ''}`,
      hint: suggestKeyCorrection(key, path),
    }))
  const actual = getValueAt(layer.raw, path)
  const hint =
    issue.code === 'custom' && typeof issue.params?.hint === 'string' ? issue.params.hint : ''
  const saysWhat = issue.code === 'custom' || issue.code === 'too_small'
  const name = path.length === 0 ? 'the experiment' : joinPath(path)
  const near =
    issue.code === 'invalid_value' && typeof actual === 'string'
      ? suggestValues(actual, issue.values.map(String))
      : []
  // A key without a value: its settings were probably not indented.
  const isEmptySection =
    actual === null && issue.code === 'invalid_type' && issue.expected === 'object'
  const what = isEmptySection
    ? `${name}: empty`
    : `${name}: ${issue.message}${saysWhat ? '' : `, found ${formatFoundValue(actual)}`}`
  return [
    createConfigProblem(
      layer.findOrigin(path),
      'experiment',
      path,
      what,
      isEmptySection
        ? 'indent its settings below it, or remove it'
        : near.length > 0
          ? `did you mean ${near.join(' or ')}?`
          : hint,
    ),
  ]
}

/** Common synonyms of schema values, for suggestions. */
const valueSynonyms: Readonly<Record<string, string>> = {
  k8s: 'kubernetes',
  kube: 'kubernetes',
  docker: 'local',
  simulation: 'simulated',
  virtual: 'simulated',
  bayesian: 'gp',
  bayes: 'gp',
  optuna: 'gp',
  tpe: 'gp',
}

function suggestValues(found: string, values: readonly string[]): string[] {
  const synonym = valueSynonyms[found.toLowerCase()]
  return synonym !== undefined && values.includes(synonym)
    ? [synonym]
    : findClosestNames(found, values)
}

const formatPlace = (origin: Origin | undefined) => (origin ? showOrigin(origin) : 'experiment')

function formatFoundValue(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : 'an object'
  const text = typeof value === 'string' ? `'${value}'` : String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

export function getValueAt(value: unknown, path: Path): unknown {
  let inner = value
  for (const step of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, step)) return undefined
    inner = (inner as Record<string | number, unknown>)[step]
  }
  return inner
}

/**
 * Removes the subject of an issue from the document: the key, the incomplete object, the whole list
 * or the whole parameter, so that nothing incomplete remains.
 */
function removeInvalid(raw: unknown, issue: Issue): void {
  const path = issue.path as Path
  if (issue.code === 'unrecognized_keys') {
    const owner = getValueAt(raw, path)
    for (const key of issue.keys) if (isRecord(owner)) Reflect.deleteProperty(owner, key)
    return
  }
  let whole = path[0] === 'space' ? path.slice(0, 2) : path
  const mustGoUp = (owner: unknown) =>
    Array.isArray(owner) || !isRecord(owner) || !Object.hasOwn(owner, whole.at(-1)!)
  while (whole.length > 1 && mustGoUp(getValueAt(raw, whole.slice(0, -1))))
    whole = whole.slice(0, -1)
  const owner = getValueAt(raw, whole.slice(0, -1))
  if (isRecord(owner)) Reflect.deleteProperty(owner, whole.at(-1)!)
}

const isRecord = (value: unknown): value is object => typeof value === 'object' && value !== null

interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: JsonSchema | boolean
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
}

let jsonSchema: JsonSchema | undefined

/** Keys that the schema knows at a path, and every key anywhere in it with its full path. */
function listKnownKeys(path: Path): { here: string[]; everywhere: [name: string, path: string][] } {
  const everywhere: [string, string][] = []
  const keysAtPath: string[] = []
  const walk = (schema: JsonSchema, at: readonly string[], rest: Path | undefined): void => {
    for (const part of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) walk(part, at, rest)
    for (const [key, inner] of Object.entries(schema.properties ?? {})) {
      if (rest?.length === 0) keysAtPath.push(key)
      everywhere.push([key, [...at, key].join('.')])
      walk(inner, [...at, key], rest && rest[0] === key ? rest.slice(1) : undefined)
    }
    if (typeof schema.additionalProperties === 'object' && rest !== undefined && rest.length > 0)
      walk(schema.additionalProperties, [...at, '*'], rest.slice(1))
  }
  jsonSchema ??= createExperimentJsonSchema() as JsonSchema
  walk(jsonSchema, [], path)
  return { here: [...new Set(keysAtPath)], everywhere }
}

/** Common synonyms of keys, each with the key to suggest. */
const keySynonyms: Readonly<Record<string, string>> = {
  parameters: 'space (what is tuned) or predictor (the server)',
  params: 'space (what is tuned)',
  searchspace: 'space (what is tuned)',
  hyperparameters: 'space (what is tuned)',
  knobs: 'space (what is tuned)',
  resources: 'space (what is tuned)',
  tune: 'space (what is tuned)',
  server: 'predictor (the server)',
  service: 'predictor (the server)',
  container: 'predictor (the server)',
  endpoint: 'predictor.url',
  url: 'predictor.url',
  command: 'predictor.command',
  latency: 'slo',
  target: 'slo',
  objectives: 'objective',
  goal: 'objective',
  trials: 'budget.maxTrials',
  workload: 'load',
  traffic: 'load',
  rps: 'demand',
  qps: 'demand',
  cost: 'prices (the price book) or budget.cost',
  cluster: 'kubernetes',
  algorithm: 'sampler',
}

function suggestKeyCorrection(key: string, path: Path): string {
  const { here, everywhere } = listKnownKeys(path)
  if (findClosestNames(key, here).length > 0) return suggestNames(key, here)
  const [synonym] = path.length === 0 ? findClosestNames(key, Object.keys(keySynonyms)) : []
  if (synonym !== undefined) return `did you mean ${keySynonyms[synonym]}?`
  const names = [...new Set(everywhere.map(([name]) => name))]
  const other = names.includes(key) ? key : findClosestNames(key, names)[0]
  const match = everywhere.find(([name, where]) => name === other && !where.includes('*'))
  return match ? `did you mean ${match[1]}?` : suggestNames(key, here)
}

const domainKeys = ['kind', 'values', 'min', 'max', 'step', 'factor', 'scale', 'features'] as const

/**
 * A new domain of a parameter replaces the old one as a whole. Category, condition and direction
 * stay unless they are set again.
 */
function mergeParameter(below: ParameterEntry | undefined, above: ParameterEntry): ParameterEntry {
  const retained: Record<string, unknown> = { ...below }
  if (domainKeys.some((key) => above[key] !== undefined))
    for (const key of domainKeys) delete retained[key]
  return { ...retained, ...above } as ParameterEntry
}

export interface Merged {
  readonly settings: Settings
  /** The layer that set a value. Undefined if no layer did. */
  readonly findLayer: (path: Path) => Layer | undefined
  /** Origin of a value that the user set. Undefined for a default. */
  readonly findOrigin: (path: Path) => Origin | undefined
}

/** Sections that are merged entry by entry. Any other value replaces the lower one as a whole. */
const sections = new Set([
  'slo',
  'load',
  'budget',
  'stop',
  'space',
  'pin',
  'predictor',
  'kubernetes',
  'golden',
])

/**
 * A predictor of another kind replaces the lower one. A `protocol`, an `env` or another URL of a
 * running server is merged into it.
 */
const isAnotherPredictor = (key: string, below: unknown, value: unknown) =>
  key === 'predictor' &&
  predictorKindKeys.some(
    (name) =>
      name in toRecord(value) &&
      !(urlKeys.includes(name) && urlKeys.some((key) => key in toRecord(below))),
  )
const urlKeys: readonly string[] = ['url', 'urls']

/** `url` replaces `urls`, and the reverse. */
function dropReplacedUrls(
  below: Record<string, unknown>,
  above: Record<string, unknown>,
): Record<string, unknown> {
  const replaced = urlKeys.some((key) => key in above) ? urlKeys : []
  return Object.fromEntries(Object.entries(below).filter(([key]) => !replaced.includes(key)))
}

/**
 * An SLO with a `limit`, even an undefined one, replaces all lower limits. The limit of a metric
 * replaces the lower limit of the same metric.
 */
function dropReplacedLimits(
  below: Record<string, unknown>,
  above: Record<string, unknown>,
): Record<string, unknown> {
  const single = ['limit', 'metric']
  const replaced =
    'limit' in above
      ? [...single, ...latencyMetricNames]
      : String(below.metric ?? 'e2e') in above
        ? single
        : []
  return Object.fromEntries(Object.entries(below).filter(([key]) => !replaced.includes(key)))
}

/** Merges layers; later ones win. The first has the defaults. */
export function mergeLayers(
  layers: readonly { readonly layer: Layer; readonly entries: ExperimentEntries }[],
): Merged {
  const owners = new Map<string, Layer>()
  const mergeInto = (
    below: Record<string, unknown>,
    above: Record<string, unknown>,
    layer: Layer,
    path: Path,
  ): Record<string, unknown> => {
    const merged = { ...below }
    for (const [key, value] of Object.entries(above)) {
      if (value === undefined) continue
      const inner = [...path, key]
      if (sections.has(joinPath(inner))) {
        const retained = isAnotherPredictor(key, below[key], value)
          ? {}
          : key === 'slo'
            ? dropReplacedLimits(toRecord(below[key]), toRecord(value))
            : key === 'predictor'
              ? dropReplacedUrls(toRecord(below[key]), toRecord(value))
              : toRecord(below[key])
        merged[key] = mergeInto(retained, toRecord(value), layer, inner)
      } else {
        merged[key] =
          path[0] === 'space'
            ? mergeParameter(below[key] as ParameterEntry | undefined, value as ParameterEntry)
            : value
        owners.set(joinPath(inner), layer)
      }
    }
    return merged
  }
  let entries: Record<string, unknown> = {}
  for (const { layer, entries: above } of layers) entries = mergeInto(entries, above, layer, [])
  const findLayer = (path: Path): Layer | undefined => {
    for (let length = path.length; length > 0; length--) {
      const owner = owners.get(joinPath(path.slice(0, length)))
      if (owner) return owner
    }
    // A section has no owner: the last layer that set one of its values represents it.
    return [...owners].findLast(([name]) => name.startsWith(`${joinPath(path)}.`))?.[1]
  }
  return {
    settings: entries as unknown as Settings,
    findLayer,
    findOrigin: (path) => {
      const origin = findLayer(path)?.findOrigin(path)
      return origin?.kind === 'default' ? undefined : origin
    },
  }
}

const toRecord = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
