/** The generated parts of docs/reference/experiment-file.md: every key, and the parameters. */
import { experimentFlags } from '../config/flags/flags.ts'
import { knownParameters } from '../config/parameters.ts'
import { createExperimentJsonSchema } from '../config/schema/experiment-schema.ts'
import type { JsonSchema } from './json-schema.ts'
import { code, codeList, escapeText, table } from './markdown.ts'

export const experimentFileRegions = (): Record<string, string> => ({
  keys: keySections(),
  parameters: parameterTable(),
})

interface Key {
  readonly path: readonly string[]
  readonly schema: JsonSchema
}

/** A table of the top-level keys, then one for each key that has keys of its own. */
function keySections(): string {
  const top = keysOf(createExperimentJsonSchema() as JsonSchema, []).filter(
    ({ path }) => path.length === 1,
  )
  const sections = top.flatMap((key) => {
    // A stage has keys of the top level again, which have their own sections.
    const inner = keysOf(key.schema, key.path).filter(
      ({ path }) => path[0] !== 'stages' || path.length === 3,
    )
    return inner.length === 0 ? [] : [`### ${key.path[0]}\n\n${keyTable(inner)}`]
  })
  return [keyTable(top), ...sections].join('\n\n')
}

const keyTable = (keys: readonly Key[]): string =>
  table(['key', 'flag', 'meaning', 'values'], keys.map(keyRow))

/** Every key below a schema. NAME stands for a key of a map, `[]` for an item of a list. */
function keysOf(schema: JsonSchema, path: readonly string[]): Key[] {
  const forms = formsOf(schema)
  const properties = forms.flatMap((form) => Object.entries(form.properties ?? {}))
  const values = forms.flatMap(({ additionalProperties: value }) =>
    typeof value === 'object' ? [value] : [],
  )
  const items = forms.flatMap(({ items: item }) => (typeof item === 'object' ? [item] : []))
  return [
    ...properties.flatMap(([name, value]) => [
      { path: [...path, name], schema: value },
      ...keysOf(value, [...path, name]),
    ]),
    ...values.flatMap((value) => keysOf(value, [...path, 'NAME'])),
    ...items.flatMap((item) => keysOf(item, [...path, '[]'])),
  ]
}

/** A schema and all its alternatives. */
const formsOf = (schema: JsonSchema): JsonSchema[] => [
  schema,
  ...(schema.anyOf ?? []).flatMap(formsOf),
]

/** A list of names is shown with a key as long as it stays readable. */
const maxNamesShown = 8

function keyRow({ path, schema }: Key): string[] {
  const name = path.join('.').replaceAll('.[]', '[]')
  const { description = '', enum: names = [] } = schema
  const shown = names.length > 0 && names.length <= maxNamesShown
  const values = shown ? codeList(names.map(String)) : ''
  return [code(name), flagsOf(name), escapeText(description), values]
}

/** The long forms of the flags that write to a path. */
function flagsOf(path: string): string {
  const flags = experimentFlags.filter((flag) => flag.path.join('.') === path)
  return flags.map((flag) => code(flag.flags.replace(/^-\w, /, '').split(' ')[0]!)).join(' ')
}

const parameterTable = (): string =>
  table(
    ['parameter', 'flag', 'meaning', 'category', 'values', 'monotone'],
    knownParameters.map(({ name, what, category, monotone, powers, names }) => {
      const range = powers ? '`a..b`: powers of two' : codeList(names ?? [])
      return [
        code(name),
        flagsOf(`space.${name}`),
        escapeText(what),
        category,
        range,
        monotone ? 'more never serves less' : '',
      ]
    }),
  )
