/**
 * How a server of plain JSON may be called: as its own description says (OpenAPI, as FastAPI,
 * BentoML and Ray Serve write it), else by the usual paths.
 */
import { isRecord } from '../../../profiler/plain-record.ts'
import type { FormFields } from '../../../profiler/protocols/form-fields.ts'

/** A call to try. */
export interface JsonCall {
  readonly path: string
  readonly template?: string
  /** Fields of multipart/form-data in its place. */
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

const inference =
  /predict|infer|classif|embed|generat|score|invocation|complet|summar|translat|detect/i
const deepest = 6

/**
 * Calls that an OpenAPI document names: POST with a JSON body or a form, the likeliest to be an
 * inference first.
 */
export function describedCalls(document: unknown): JsonCall[] {
  const paths = isRecord(document) && isRecord(document.paths) ? document.paths : {}
  const calls = Object.entries(paths).flatMap(([path, item]): JsonCall[] => {
    if (path.includes('{') || !isRecord(item) || !isRecord(item.post)) return []
    const content = at(resolved(document, item.post.requestBody), 'content')
    if (!isRecord(content)) return []
    if (isRecord(content['application/json']))
      return [
        { path, template: templateOf(document, content['application/json'].schema, 'text', 0) },
      ]
    const form = at(content['multipart/form-data'], 'schema')
    return form === undefined ? [] : [{ path, form: formOf(document, form) }]
  })
  return calls.sort((a, b) => Number(inference.test(b.path)) - Number(inference.test(a.path)))
}

/**
 * A body template of a JSON Schema: texts, pictures and whole numbers are filled in, the rest is an
 * example.
 */
function templateOf(document: unknown, given: unknown, name: string, depth: number): string {
  const schema = resolved(document, given)
  if (!isRecord(schema) || depth > deepest) return '{}'
  const known =
    schema.example ??
    schema.default ??
    schema.const ??
    (Array.isArray(schema.enum) ? schema.enum[0] : undefined)
  const either = [schema.anyOf, schema.oneOf, schema.allOf].find(Array.isArray)
  if (either)
    return templateOf(
      document,
      either.find((one) => at(one, 'type') !== 'null') ?? {},
      name,
      depth + 1,
    )
  switch (schema.type) {
    case 'string':
      return known === undefined
        ? `"{{${/image|photo|picture|b64|base64/i.test(name) ? 'image' : 'text'}}}"`
        : JSON.stringify(known)
    case 'integer':
      return known === undefined ? '{{int}}' : JSON.stringify(known)
    case 'number':
      return JSON.stringify(known ?? 0.5)
    case 'boolean':
      return JSON.stringify(known ?? true)
    case 'array':
      return known === undefined ? listOf(document, schema, name, depth) : JSON.stringify(known)
    default: {
      if (known !== undefined) return JSON.stringify(known)
      const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
      const all = Object.entries(isRecord(schema.properties) ? schema.properties : {})
      // What may be left out is, unless all of it may.
      const wanted = required.length > 0 ? all.filter(([key]) => required.includes(key)) : all
      return `{${wanted.map(([key, value]) => `${JSON.stringify(key)}: ${templateOf(document, value, key, depth + 1)}`).join(', ')}}`
    }
  }
}

/**
 * Its fields as templates: what is a file is sent a picture. Fields that need not be given are left
 * out.
 */
function formOf(document: unknown, given: unknown): Record<string, string> {
  const schema = resolved(document, given)
  const properties = isRecord(schema) && isRecord(schema.properties) ? schema.properties : {}
  const required: readonly unknown[] =
    isRecord(schema) && Array.isArray(schema.required) ? schema.required : []
  const isFile = (field: unknown): boolean =>
    at(field, 'format') === 'binary' ||
    at(field, 'contentMediaType') !== undefined ||
    (at(field, 'items') !== undefined && isFile(resolved(document, at(field, 'items'))))
  return Object.fromEntries(
    Object.entries(properties)
      .map(([name, field]) => [name, resolved(document, field)] as const)
      .filter(([name, field]) => isFile(field) || required.length === 0 || required.includes(name))
      .map(([name, field]) => [
        name,
        isFile(field)
          ? '{{image}}'
          : templateOf(document, field, name, 1).replace(/^"(.*)"$/, '$1'),
      ]),
  )
}

function listOf(
  document: unknown,
  schema: Record<string, unknown>,
  name: string,
  depth: number,
): string {
  const item = templateOf(document, schema.items, name, depth + 1)
  if (/^"\{\{(text|image)\}\}"$/.test(item)) return `{{${item.slice(3, -3)}s}}`
  if (item === '{{int}}') return '{{ints}}'
  const length =
    typeof schema.minItems === 'number' ? Math.max(1, Math.min(schema.minItems, 4096)) : 1
  return `[${Array.from({ length }, () => item).join(', ')}]`
}

/** A path of the document that says it is ready. */
export const describedHealth = (document: unknown): string | undefined =>
  Object.entries(isRecord(document) && isRecord(document.paths) ? document.paths : {})
    .filter(([path, item]) => isRecord(item) && isRecord(item.get) && !path.includes('{'))
    .map(([path]) => path)
    .find((path) => /health|read[yi]|ping|live/i.test(path))

function resolved(document: unknown, schema: unknown): unknown {
  let here = schema
  for (let i = 0; i < deepest && isRecord(here) && typeof here.$ref === 'string'; i++)
    here = at(document, ...here.$ref.replace(/^#\//, '').split('/'))
  return here
}

function at(value: unknown, ...path: readonly string[]): unknown {
  let here = value
  for (const key of path) here = isRecord(here) && Object.hasOwn(here, key) ? here[key] : undefined
  return here
}
