/** Renders JSON Schemas as tables: a row for each property, nested ones below their parent. */
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

/** Converts the name of a definition to the title of its section. */
type FormatTitle = (definition: string) => string

const listParts = ({ anyOf, oneOf, allOf }: JsonSchema): readonly JsonSchema[] =>
  anyOf ?? oneOf ?? allOf ?? []

const getDefinitionName = ({ $ref }: JsonSchema): string | undefined => $ref?.split('/').at(-1)

/** Lists a row for each property: path, type, description. Definitions are links. */
export function listPropertyRows(
  schema: JsonSchema,
  formatTitle: FormatTitle,
  path = '',
): string[][] {
  const alternatives = [schema, ...listParts(schema)]
  const properties = new Map<string, JsonSchema[]>()
  for (const part of alternatives)
    for (const [name, property] of Object.entries(part.properties ?? {}))
      properties.set(name, [...(properties.get(name) ?? []), property])
  return [...properties].flatMap(([name, variants]) => {
    const [property] = variants
    const propertyPath = `${path}${name}`
    const types = [...new Set(variants.map((variant) => formatType(variant, formatTitle)))].join(
      ', ',
    )
    const optional = alternatives.every(({ required = [] }) => !required.includes(name))
    return [
      [code(propertyPath), `${types}${optional ? '; optional' : ''}`, property!.description ?? ''],
      ...listNestedRows(property!, formatTitle, propertyPath),
    ]
  })
}

/** Lists the rows of a property that is an object, a list of objects, or a map of objects. */
function listNestedRows(
  property: JsonSchema,
  formatTitle: FormatTitle,
  propertyPath: string,
): string[][] {
  const { items, additionalProperties: values } = property
  if (typeof items === 'object') return listPropertyRows(items, formatTitle, `${propertyPath}[].`)
  if (typeof values === 'object')
    return listPropertyRows(values, formatTitle, `${propertyPath}.NAME.`)
  return listPropertyRows(property, formatTitle, `${propertyPath}.`)
}

function formatType(schema: JsonSchema, formatTitle: FormatTitle): string {
  const definition = getDefinitionName(schema)
  if (definition !== undefined) {
    const title = formatTitle(definition)
    return `[${title}](#${title.toLowerCase().replaceAll(' ', '-')})`
  }
  if (schema.const !== undefined) return code(String(schema.const))
  if (schema.enum !== undefined) return codeList(schema.enum.map(String))
  const parts = listParts(schema)
  if (parts.length > 0)
    return [...new Set(parts.map((part) => formatType(part, formatTitle)))].join(' or ')
  if (schema.prefixItems !== undefined)
    return `[${schema.prefixItems.map((item) => formatType(item, formatTitle)).join(', ')}]`
  if (typeof schema.items === 'object') return `list of ${formatType(schema.items, formatTitle)}`
  if (typeof schema.additionalProperties === 'object')
    return `map of ${formatType(schema.additionalProperties, formatTitle)}`
  return [schema.type ?? 'any'].flat().join(' or ')
}
