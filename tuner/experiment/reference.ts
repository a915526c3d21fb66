/**
 * The reference of the experiment file as Markdown, from its schema: docs/experiment-file.md holds
 * it, and a test holds them equal.
 */

import { experimentFlags } from './flags/flags.ts'
import { knownParameters } from './parameters.ts'
import { experimentJsonSchema } from './schema/experiment-schema.ts'

interface JsonSchema {
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly additionalProperties?: JsonSchema | boolean
  readonly anyOf?: readonly JsonSchema[]
}

/** A table of every key, with the flag that sets it, and one of the standard parameters. */
export function experimentReference(): string {
  const keys = keysOf(experimentJsonSchema() as JsonSchema, [])
  const parameters = knownParameters.map(({ name, what, category, monotone, powers, names }) => {
    const range = powers
      ? '`a..b`: powers of two'
      : names?.length
        ? names.map((value) => `\`${value}\``).join(', ')
        : ''
    return [
      `\`${name}\``,
      flagsOf(`space.${name}`),
      what,
      category,
      range,
      monotone ? 'more never lowers the rate' : '',
    ]
  })
  return [
    table(['key', 'flag', 'what'], keys),
    '### Parameters that tune knows',
    'Any other name is a parameter of your own server.',
    table(['parameter', 'flag', 'what', 'category', 'values', 'certain'], parameters),
  ].join('\n\n')
}

function keysOf(schema: JsonSchema, path: readonly string[]): string[][] {
  const inner = [schema, ...(schema.anyOf ?? [])]
  const properties = inner.flatMap((part) => Object.entries(part.properties ?? {}))
  const values = inner.flatMap((part) =>
    typeof part.additionalProperties === 'object' ? [part.additionalProperties] : [],
  )
  return [
    ...properties.flatMap(([key, value]) => [
      row(value, [...path, key]),
      ...keysOf(value, [...path, key]),
    ]),
    ...values.flatMap((value) => keysOf(value, [...path, 'NAME'])),
  ]
}

function row(schema: JsonSchema, path: readonly string[]): string[] {
  const name = path.join('.')
  const words =
    schema.enum && schema.enum.length <= 8
      ? `${schema.enum.map((value) => `\`${value}\``).join(', ')}. `
      : ''
  return [`\`${name}\``, flagsOf(name), words + (schema.description ?? '')]
}

/** The long forms of the flags that write to a path. */
function flagsOf(path: string): string {
  const flags = experimentFlags.filter((flag) => flag.path.join('.') === path)
  return flags.map((flag) => `\`${flag.flags.replace(/^-\w, /, '').split(' ')[0]}\``).join(' ')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
