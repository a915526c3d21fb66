/**
 * Layers of settings (file, environment, flags): each validated against the schema, then laid one
 * over the other with the origin of every value.
 */
import type { z } from 'zod'
import { latencyMetricNames } from '../../profiler/model/latency-metrics.ts'
import { findClosestNames, suggestNames } from '../../trials/near-names.ts'
import { resolveUnionIssues } from '../../trials/yaml.ts'
import { namesOf } from './flags/flag-entries.ts'
import { experimentFlags } from './flags/flags.ts'
import {
  type ExperimentEntries,
  experimentFileSchema,
  experimentJsonSchema,
  type ParameterEntry,
  type Settings,
} from './schema/experiment-schema.ts'
import { parseOnce, readIn } from './schema/schema-parts.ts'
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

/** Flags whose values are entries with names of their own: a problem must name the entry. */
const namedEntryFlags = new Set(
  experimentFlags.filter(({ gather }) => gather).map((flag) => namesOf(flag).long),
)

/**
 * What is wrong with the value at a path, without the path where a flag stands for it:
 * '--slo: '50' has no unit', not '--slo: slo.limit: ...'.
 */
export function problemAt(
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

/** Data that all came from one place. */
export const uniformLayer = (raw: unknown, origin: Origin, folder: string): Layer => ({
  raw,
  originOf: () => origin,
  keyOriginOf: () => origin,
  folder,
})

/**
 * What a layer says once validated, and what is wrong with it. Wrong values are left out of
 * `entries`, so that the rest can be checked further.
 */
interface CheckedLayer {
  readonly entries: ExperimentEntries
  readonly problems: readonly ConfigProblem[]
  /**
   * Top-level keys with something wrong inside: not to be called missing as well. Of a predictor
   * also which key: 'predictor.command'.
   */
  readonly broken: ReadonlySet<string>
}

export function checkLayer(layer: Layer): CheckedLayer {
  const raw = structuredClone(layer.raw)
  const problems: ConfigProblem[] = []
  const broken = new Set<string>()
  for (;;) {
    const parsed = readIn(layer.folder, () => experimentFileSchema.safeParse(raw, parseOnce))
    if (parsed.success) return { entries: parsed.data, problems, broken }
    const issues = parsed.error.issues.flatMap((issue) => resolveUnionIssues(issue))
    for (const issue of issues) {
      problems.push(...describe(issue, layer))
      if (issue.path[0] === 'predictor') for (const key of brokenInPredictor(issue)) broken.add(key)
      if (issue.path.length > 0) broken.add(String(issue.path[0]))
      else if (issue.code === 'unrecognized_keys')
        for (const key of issue.keys.slice(0, mostKeysNamed))
          for (const meant of findClosestNames(key, topKeys)) broken.add(meant)
    }
    const nothing = issues.some(
      (issue) => issue.path.length === 0 && issue.code !== 'unrecognized_keys',
    )
    if (nothing) return { entries: {}, problems, broken: new Set(topKeys) }
    for (const issue of issues) remove(raw, issue)
  }
}

/** Keys of a predictor that say of which kind it is. */
const kindKeys: readonly string[] = ['kind', 'command', 'server', 'url', 'urls', 'engine', 'from']

/** Whether it is not known which kind of predictor was meant. */
export const isKindUnknown = (broken: ReadonlySet<string>): boolean =>
  kindKeys.some((key) => broken.has(`predictor.${key}`))

function brokenInPredictor(issue: Issue): string[] {
  const key = issue.path[1]
  if (key !== undefined) return [`predictor.${String(key)}`]
  const meant =
    issue.code === 'unrecognized_keys'
      ? issue.keys.slice(0, mostKeysNamed).flatMap((unknown) => findClosestNames(unknown, kindKeys))
      : ['kind']
  return meant.map((name) => `predictor.${name}`)
}

const topKeys = Object.keys(experimentFileSchema.shape)

type Issue = z.core.$ZodIssue

/** Of the keys of one map; they are all wrong for one reason. */
const mostKeysNamed = 20

function describe(issue: Issue, layer: Layer): ConfigProblem[] {
  const path = issue.path as Path
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, mostKeysNamed).map((key, i) => ({
      where: whereOf(layer.keyOriginOf([...path, key])),
      what: `unknown key '${joinPath([...path, key])}'${i === mostKeysNamed - 1 && issue.keys.length > mostKeysNamed ? `, and ${issue.keys.length - mostKeysNamed} more` : ''}`,
      hint: hintForKey(key, path),
    }))
  const found = valueAt(layer.raw, path)
  const hint =
    issue.code === 'custom' && typeof issue.params?.hint === 'string' ? issue.params.hint : ''
  const saysWhat = issue.code === 'custom' || issue.code === 'too_small'
  const name = path.length === 0 ? 'the experiment' : joinPath(path)
  const near =
    issue.code === 'invalid_value' && typeof found === 'string'
      ? nearValues(found, issue.values.map(String))
      : []
  // A key with nothing below it: what follows was meant to be indented.
  const isEmptySection =
    found === null && issue.code === 'invalid_type' && issue.expected === 'object'
  const what = isEmptySection
    ? `${name}: empty`
    : `${name}: ${issue.message}${saysWhat ? '' : `, found ${shortly(found)}`}`
  return [
    problemAt(
      layer.originOf(path),
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

/** Other words for values that the schema knows. */
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

function nearValues(found: string, values: readonly string[]): string[] {
  const synonym = valueSynonyms[found.toLowerCase()]
  return synonym !== undefined && values.includes(synonym)
    ? [synonym]
    : findClosestNames(found, values)
}

const whereOf = (origin: Origin | undefined) => (origin ? showOrigin(origin) : 'experiment')

function shortly(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : 'an object'
  const text = typeof value === 'string' ? `'${value}'` : String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

export function valueAt(value: unknown, path: Path): unknown {
  let inner = value
  for (const step of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, step)) return undefined
    inner = (inner as Record<string | number, unknown>)[step]
  }
  return inner
}

/**
 * Takes what an issue is about out of the document: the key, what lacks a key, the whole list, or
 * the whole parameter, so that nothing half remains.
 */
function remove(raw: unknown, issue: Issue): void {
  const path = issue.path as Path
  if (issue.code === 'unrecognized_keys') {
    const owner = valueAt(raw, path)
    for (const key of issue.keys) if (isRecord(owner)) Reflect.deleteProperty(owner, key)
    return
  }
  let whole = path[0] === 'space' ? path.slice(0, 2) : path
  const mustGoUp = (owner: unknown) =>
    Array.isArray(owner) || !isRecord(owner) || !Object.hasOwn(owner, whole.at(-1)!)
  while (whole.length > 1 && mustGoUp(valueAt(raw, whole.slice(0, -1)))) whole = whole.slice(0, -1)
  const owner = valueAt(raw, whole.slice(0, -1))
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
function knownKeys(path: Path): { here: string[]; everywhere: [name: string, path: string][] } {
  const everywhere: [string, string][] = []
  const here: string[] = []
  const walk = (schema: JsonSchema, at: readonly string[], rest: Path | undefined): void => {
    for (const part of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) walk(part, at, rest)
    for (const [key, inner] of Object.entries(schema.properties ?? {})) {
      if (rest?.length === 0) here.push(key)
      everywhere.push([key, [...at, key].join('.')])
      walk(inner, [...at, key], rest && rest[0] === key ? rest.slice(1) : undefined)
    }
    if (typeof schema.additionalProperties === 'object' && rest !== undefined && rest.length > 0)
      walk(schema.additionalProperties, [...at, '*'], rest.slice(1))
  }
  jsonSchema ??= experimentJsonSchema() as JsonSchema
  walk(jsonSchema, [], path)
  return { here: [...new Set(here)], everywhere }
}

/** Other words for keys of an experiment, each with the key and what it holds. */
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

function hintForKey(key: string, path: Path): string {
  const { here, everywhere } = knownKeys(path)
  if (findClosestNames(key, here).length > 0) return suggestNames(key, here)
  const [synonym] = path.length === 0 ? findClosestNames(key, Object.keys(keySynonyms)) : []
  if (synonym !== undefined) return `did you mean ${keySynonyms[synonym]}?`
  const names = [...new Set(everywhere.map(([name]) => name))]
  const other = names.includes(key) ? key : findClosestNames(key, names)[0]
  const place = everywhere.find(([name, where]) => name === other && !where.includes('*'))
  return place ? `did you mean ${place[1]}?` : suggestNames(key, here)
}

const domainKeys = ['kind', 'values', 'min', 'max', 'step', 'factor', 'scale', 'features'] as const

/**
 * New values of a parameter replace the old ones as a whole; its category, condition and direction
 * stay unless said anew.
 */
function overParameter(below: ParameterEntry | undefined, above: ParameterEntry): ParameterEntry {
  const kept: Record<string, unknown> = { ...below }
  if (domainKeys.some((key) => above[key] !== undefined))
    for (const key of domainKeys) delete kept[key]
  return { ...kept, ...above } as ParameterEntry
}

export interface Merged {
  readonly settings: Settings
  /** The layer that set a value. Undefined where no layer did. */
  readonly layerOf: (path: Path) => Layer | undefined
  /** Where the user set a value. Undefined for a default. */
  readonly originOf: (path: Path) => Origin | undefined
}

/**
 * Laid over each other entry by entry; any other value replaces the one below as a whole: half of
 * one predictor and half of another would be neither.
 */
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
 * A predictor of another kind replaces the one below; a mere `protocol` or `env`, or another URL of
 * one that runs already, is laid over it.
 */
const isAnotherPredictor = (key: string, below: unknown, value: unknown) =>
  key === 'predictor' &&
  kindKeys.some(
    (name) =>
      name in record(value) &&
      !(urlKeys.includes(name) && urlKeys.some((key) => key in record(below))),
  )
const urlKeys: readonly string[] = ['url', 'urls']

/** One URL takes the place of several, and they of one. */
function withoutOtherUrls(
  below: Record<string, unknown>,
  above: Record<string, unknown>,
): Record<string, unknown> {
  const replaced = urlKeys.some((key) => key in above) ? urlKeys : []
  return Object.fromEntries(Object.entries(below).filter(([key]) => !replaced.includes(key)))
}

/**
 * An SLO that names a `limit`, if only to say that there is none, replaces the one below; one
 * metric's own limit replaces that of the same metric.
 */
function withoutReplaced(
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

/** Lays the later layers over the earlier ones. The first has the defaults. */
export function mergeLayers(
  layers: readonly { readonly layer: Layer; readonly entries: ExperimentEntries }[],
): Merged {
  const owners = new Map<string, Layer>()
  const lay = (
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
        const kept = isAnotherPredictor(key, below[key], value)
          ? {}
          : key === 'slo'
            ? withoutReplaced(record(below[key]), record(value))
            : key === 'predictor'
              ? withoutOtherUrls(record(below[key]), record(value))
              : record(below[key])
        merged[key] = lay(kept, record(value), layer, inner)
      } else {
        merged[key] =
          path[0] === 'space'
            ? overParameter(below[key] as ParameterEntry | undefined, value as ParameterEntry)
            : value
        owners.set(joinPath(inner), layer)
      }
    }
    return merged
  }
  let entries: Record<string, unknown> = {}
  for (const { layer, entries: above } of layers) entries = lay(entries, above, layer, [])
  const layerOf = (path: Path): Layer | undefined => {
    for (let length = path.length; length > 0; length--) {
      const owner = owners.get(joinPath(path.slice(0, length)))
      if (owner) return owner
    }
    // A section has no owner of its own: the last layer that set something in it stands for it.
    return [...owners].findLast(([name]) => name.startsWith(`${joinPath(path)}.`))?.[1]
  }
  return {
    settings: entries as unknown as Settings,
    layerOf,
    originOf: (path) => {
      const origin = layerOf(path)?.originOf(path)
      return origin?.kind === 'default' ? undefined : origin
    },
  }
}

const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
