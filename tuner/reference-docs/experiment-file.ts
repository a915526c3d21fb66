/** Renders the generated parts of docs/reference/experiment-file.md: all keys and parameters. */
import { experimentFlags } from '../config/flags/flags.ts'
import { knownParameters } from '../config/parameters.ts'
import { createExperimentJsonSchema } from '../config/schema/experiment-schema.ts'
import type { JsonSchema } from './json-schema.ts'
import { code, codeList, escapeText, table } from './markdown.ts'

export const renderExperimentFileRegions = (): Record<string, string> => ({
  keys: renderKeySections(),
  parameters: renderParameterTable(),
})

interface Key {
  readonly path: readonly string[]
  readonly schema: JsonSchema
}

/** Renders a table of the top-level keys, then one for each key with nested keys. */
function renderKeySections(): string {
  const top = listKeys(createExperimentJsonSchema() as JsonSchema, []).filter(
    ({ path }) => path.length === 1,
  )
  const sections = top.flatMap((key) => {
    // A stage repeats keys of the top level, which have their own sections.
    const inner = listKeys(key.schema, key.path).filter(
      ({ path }) => path[0] !== 'stages' || path.length === 3,
    )
    return inner.length === 0 ? [] : [`### ${key.path[0]}\n\n${renderKeyTable(inner)}`]
  })
  return [renderKeyTable(top), ...sections].join('\n\n')
}

const renderKeyTable = (keys: readonly Key[]): string =>
  table(['key', 'flag', 'meaning', 'values'], keys.map(renderKeyRow))

/** Lists all keys below a schema. NAME stands for a key of a map, `[]` for an item of a list. */
function listKeys(schema: JsonSchema, path: readonly string[]): Key[] {
  const alternatives = listAlternatives(schema)
  const properties = alternatives.flatMap((alternative) =>
    Object.entries(alternative.properties ?? {}),
  )
  const values = alternatives.flatMap(({ additionalProperties: value }) =>
    typeof value === 'object' ? [value] : [],
  )
  const items = alternatives.flatMap(({ items: item }) => (typeof item === 'object' ? [item] : []))
  return [
    ...properties.flatMap(([name, value]) => [
      { path: [...path, name], schema: value },
      ...listKeys(value, [...path, name]),
    ]),
    ...values.flatMap((value) => listKeys(value, [...path, 'NAME'])),
    ...items.flatMap((item) => listKeys(item, [...path, '[]'])),
  ]
}

/** Lists a schema and all its alternatives. */
const listAlternatives = (schema: JsonSchema): JsonSchema[] => [
  schema,
  ...(schema.anyOf ?? []).flatMap(listAlternatives),
]

/** Longer enumerations are left out of the table, to keep it readable. */
const maxListedValues = 8

function renderKeyRow({ path, schema }: Key): string[] {
  const name = path.join('.').replaceAll('.[]', '[]')
  const { description = '', enum: names = [] } = schema
  const isListed = names.length > 0 && names.length <= maxListedValues
  const values = isListed ? codeList(names.map(String)) : ''
  return [code(name), formatFlags(name), escapeText(description), values]
}

/** Formats the long forms of the flags that set a key. */
function formatFlags(path: string): string {
  const flags = experimentFlags.filter((flag) => flag.path.join('.') === path)
  return flags.map((flag) => code(flag.flags.replace(/^-\w, /, '').split(' ')[0]!)).join(' ')
}

const renderParameterTable = (): string =>
  table(
    ['parameter', 'flag', 'meaning', 'category', 'values', 'monotone'],
    knownParameters.map(
      ({ name, what: description, category, monotone, powers: isPowerOfTwo, names }) => {
        const range = isPowerOfTwo ? '`a..b`: powers of two' : codeList(names ?? [])
        return [
          code(name),
          formatFlags(`space.${name}`),
          escapeText(description),
          category,
          range,
          monotone ? 'capacity never falls as it grows' : '',
        ]
      },
    ),
  )
