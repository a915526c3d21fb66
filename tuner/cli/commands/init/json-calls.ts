/**
 * Finds calls of a server with plain JSON: from its OpenAPI description (FastAPI, BentoML, Ray
 * Serve), or common paths.
 */
import { isRecord } from '../../../../profiler/plain-record.ts'
import type { FormFields } from '../../../../profiler/protocols/form-fields.ts'

/** A call to try. */
export interface JsonCall {
  readonly path: string
  readonly template?: string
  /** Fields of multipart/form-data instead. */
  readonly form?: FormFields
}

export const descriptionPaths = ['/openapi.json', '/docs.json', '/swagger.json'] as const
export const usualPaths = [
  '/predict',
  '/invocations',
  '/infer',
  '/classify',
  '/embed',
  '/generate',
  '/score',
  '/v1/predict',
  '/api/predict',
]
export const usualHealthPaths = ['/healthz', '/health', '/ready', '/readyz', '/ping', '/livez', '/']
export const usualTemplates = [
  '{"text": "{{text}}"}',
  '{"texts": {{texts}}}',
  '{"inputs": "{{text}}"}',
  '{"input": "{{text}}"}',
  '{"instances": {{texts}}}',
  '{"image": "{{image}}"}',
]

const inferencePattern =
  /predict|infer|classif|embed|generat|score|invocation|complet|summar|translat|detect/i
/** Levels and references of a schema that are followed, because schemas may be recursive. */
const maxSchemaDepth = 6

/** POST calls with a JSON body or a form in an OpenAPI document, likely inference calls first. */
export function listDescribedCalls(document: unknown): JsonCall[] {
  const paths = isRecord(document) && isRecord(document.paths) ? document.paths : {}
  const calls = Object.entries(paths).flatMap(([path, item]): JsonCall[] => {
    if (path.includes('{') || !isRecord(item) || !isRecord(item.post)) return []
    const content = getAt(resolveReference(document, item.post.requestBody), 'content')
    if (!isRecord(content)) return []
    if (isRecord(content['application/json']))
      return [
        { path, template: buildTemplate(document, content['application/json'].schema, 'text', 0) },
      ]
    const form = getAt(content['multipart/form-data'], 'schema')
    return form === undefined ? [] : [{ path, form: buildForm(document, form) }]
  })
  return calls.sort(
    (a, b) => Number(inferencePattern.test(b.path)) - Number(inferencePattern.test(a.path)),
  )
}

/**
 * Builds a body template for a JSON Schema: placeholders for texts, images and integers, example
 * values for the rest.
 */
function buildTemplate(
  document: unknown,
  schemaOrReference: unknown,
  name: string,
  depth: number,
): string {
  const schema = resolveReference(document, schemaOrReference)
  if (!isRecord(schema) || depth > maxSchemaDepth) return '{}'
  const exampleValue =
    schema.example ??
    schema.default ??
    schema.const ??
    (Array.isArray(schema.enum) ? schema.enum[0] : undefined)
  // Takes the first alternative that is not null; of allOf, only the first member.
  const either = [schema.anyOf, schema.oneOf, schema.allOf].find(Array.isArray)
  if (either)
    return buildTemplate(
      document,
      either.find((one) => getAt(one, 'type') !== 'null') ?? {},
      name,
      depth + 1,
    )
  switch (schema.type) {
    case 'string':
      return exampleValue === undefined
        ? `"{{${/image|photo|picture|b64|base64/i.test(name) ? 'image' : 'text'}}}"`
        : JSON.stringify(exampleValue)
    case 'integer':
      return exampleValue === undefined ? '{{int}}' : JSON.stringify(exampleValue)
    case 'number':
      return JSON.stringify(exampleValue ?? 0.5)
    case 'boolean':
      return JSON.stringify(exampleValue ?? true)
    case 'array':
      return exampleValue === undefined
        ? buildListTemplate(document, schema, name, depth)
        : JSON.stringify(exampleValue)
    default: {
      if (exampleValue !== undefined) return JSON.stringify(exampleValue)
      const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
      const properties = Object.entries(isRecord(schema.properties) ? schema.properties : {})
      // Optional properties are left out, unless all are optional.
      const chosenProperties =
        required.length > 0 ? properties.filter(([key]) => required.includes(key)) : properties
      return `{${chosenProperties.map(([key, value]) => `${JSON.stringify(key)}: ${buildTemplate(document, value, key, depth + 1)}`).join(', ')}}`
    }
  }
}

/** Builds the templates of form fields: files become images, optional fields are left out. */
function buildForm(document: unknown, schemaOrReference: unknown): Record<string, string> {
  const schema = resolveReference(document, schemaOrReference)
  const properties = isRecord(schema) && isRecord(schema.properties) ? schema.properties : {}
  const required: readonly unknown[] =
    isRecord(schema) && Array.isArray(schema.required) ? schema.required : []
  const isFile = (field: unknown): boolean =>
    getAt(field, 'format') === 'binary' ||
    getAt(field, 'contentMediaType') !== undefined ||
    (getAt(field, 'items') !== undefined &&
      isFile(resolveReference(document, getAt(field, 'items'))))
  return Object.fromEntries(
    Object.entries(properties)
      .map(([name, field]) => [name, resolveReference(document, field)] as const)
      .filter(([name, field]) => isFile(field) || required.length === 0 || required.includes(name))
      .map(([name, field]) => [
        name,
        isFile(field)
          ? '{{image}}'
          : buildTemplate(document, field, name, 1).replace(/^"(.*)"$/, '$1'),
      ]),
  )
}

function buildListTemplate(
  document: unknown,
  schema: Record<string, unknown>,
  name: string,
  depth: number,
): string {
  const item = buildTemplate(document, schema.items, name, depth + 1)
  if (/^"\{\{(text|image)\}\}"$/.test(item)) return `{{${item.slice(3, -3)}s}}`
  if (item === '{{int}}') return '{{ints}}'
  const length =
    typeof schema.minItems === 'number' ? Math.max(1, Math.min(schema.minItems, 4096)) : 1
  return `[${Array.from({ length }, () => item).join(', ')}]`
}

/** Finds a readiness path in the document. */
export const findDescribedHealth = (document: unknown): string | undefined =>
  Object.entries(isRecord(document) && isRecord(document.paths) ? document.paths : {})
    .filter(([path, item]) => isRecord(item) && isRecord(item.get) && !path.includes('{'))
    .map(([path]) => path)
    .find((path) => /health|read[yi]|ping|live/i.test(path))

function resolveReference(document: unknown, schema: unknown): unknown {
  let resolved = schema
  for (
    let i = 0;
    i < maxSchemaDepth && isRecord(resolved) && typeof resolved.$ref === 'string';
    i++
  )
    resolved = getAt(document, ...resolved.$ref.replace(/^#\//, '').split('/'))
  return resolved
}

function getAt(value: unknown, ...path: readonly string[]): unknown {
  let current = value
  for (const key of path)
    current = isRecord(current) && Object.hasOwn(current, key) ? current[key] : undefined
  return current
}
