/** JSON Schemas as tables: a row for each property, nested ones below their parent. */
import { code, codeList } from './markdown.ts'

export interface JsonSchema {
  readonly description?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: JsonSchema | boolean
  readonly items?: JsonSchema | boolean
  readonly prefixItems?: readonly JsonSchema[]
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, JsonSchema>>
}

/** Name of a definition as the title of a section. */
type TitleOf = (definition: string) => string

const listParts = ({ anyOf, oneOf, allOf }: JsonSchema): readonly JsonSchema[] =>
  anyOf ?? oneOf ?? allOf ?? []

const getDefinitionName = ({ $ref }: JsonSchema): string | undefined => $ref?.split('/').at(-1)

/** A row for each property: path, type, description. Definitions are links. */
export function propertyRows(schema: JsonSchema, titleOf: TitleOf, path = ''): string[][] {
  const inner = [schema, ...listParts(schema)]
  const properties = new Map<string, JsonSchema[]>()
  for (const part of inner)
    for (const [name, property] of Object.entries(part.properties ?? {}))
      properties.set(name, [...(properties.get(name) ?? []), property])
  return [...properties].flatMap(([name, variants]) => {
    const [property] = variants
    const place = `${path}${name}`
    const types = [...new Set(variants.map((variant) => typeText(variant, titleOf)))].join(', ')
    const optional = inner.every(({ required = [] }) => !required.includes(name))
    return [
      [code(place), `${types}${optional ? '; optional' : ''}`, property!.description ?? ''],
      ...nested(property!, titleOf, place),
    ]
  })
}

/** Rows of a property that is an object, a list of objects, or a map of objects. */
function nested(property: JsonSchema, titleOf: TitleOf, place: string): string[][] {
  const { items, additionalProperties: values } = property
  if (typeof items === 'object') return propertyRows(items, titleOf, `${place}[].`)
  if (typeof values === 'object') return propertyRows(values, titleOf, `${place}.NAME.`)
  return propertyRows(property, titleOf, `${place}.`)
}

function typeText(schema: JsonSchema, titleOf: TitleOf): string {
  const definition = getDefinitionName(schema)
  if (definition !== undefined) {
    const title = titleOf(definition)
    return `[${title}](#${title.toLowerCase().replaceAll(' ', '-')})`
  }
  if (schema.const !== undefined) return code(String(schema.const))
  if (schema.enum !== undefined) return codeList(schema.enum.map(String))
  const parts = listParts(schema)
  if (parts.length > 0)
    return [...new Set(parts.map((part) => typeText(part, titleOf)))].join(' or ')
  if (schema.prefixItems !== undefined)
    return `[${schema.prefixItems.map((item) => typeText(item, titleOf)).join(', ')}]`
  if (typeof schema.items === 'object') return `list of ${typeText(schema.items, titleOf)}`
  if (typeof schema.additionalProperties === 'object')
    return `map of ${typeText(schema.additionalProperties, titleOf)}`
  return [schema.type ?? 'any'].flat().join(' or ')
}
