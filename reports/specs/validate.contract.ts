/**
 * Checks of generated specs against the official formats, for tests: closed JSON schemas and a
 * reader of the protobuf text format.
 */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Ajv, { type ValidateFunction } from 'ajv'
import { parseAllDocuments } from 'yaml'

const folder = join(dirname(fileURLToPath(import.meta.url)), 'schemas')
const schemaOf = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8'))

/** The schemas are large and published: compiled as they are, in a third of the time. */
const ajv = new Ajv.default({
  ...{ strict: false, allErrors: true },
  ...{ validateSchema: false, inlineRefs: false, code: { optimize: false } },
})
ajv.addSchema(schemaOf('kubernetes-1.34.json'), 'kubernetes-1.34.json')

const byKind: Readonly<Record<string, string>> = {
  InferenceService: 'kserve-v0.20-inferenceservice.json',
  LLMInferenceService: 'kserve-v1alpha1-llminferenceservice.json',
  InferenceGraph: 'kserve-v1alpha1-inferencegraph.json',
  RayService: 'kuberay-v1-rayservice.json',
  LeaderWorkerSet: 'lws-v1-leaderworkerset.json',
  SeldonDeployment: 'seldon-v1-seldondeployment.json',
  Inference: 'kubedl-v1alpha1-inference.json',
  Rollout: 'argo-v1alpha1-rollout.json',
  AnalysisTemplate: 'argo-v1alpha1-analysistemplate.json',
  ScaledObject: 'keda-v1alpha1-scaledobject.json',
}
const compiled = new Map<string, ValidateFunction>()
function validator(name: string): ValidateFunction {
  const known =
    compiled.get(name) ??
    (name === 'kubernetes-1.34.json' ? ajv.getSchema(name)! : ajv.compile(schemaOf(name)))
  compiled.set(name, known)
  return known
}

const problems = (name: string, data: unknown): string[] => {
  const validate = validator(name)
  return validate(data)
    ? []
    : (validate.errors ?? []).map(
        (e) => `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`,
      )
}

/** What the official schemas find wrong with each object of a YAML file, and the objects. */
export function checkManifests(text: string): {
  objects: Record<string, unknown>[]
  problems: string[]
} {
  const documents = parseAllDocuments(text, { version: '1.1' })
  const broken = documents.flatMap((d) => d.errors.map((e) => e.message))
  const objects = documents.map((d) => d.toJS() as Record<string, unknown>)
  return {
    objects,
    problems: [
      ...broken,
      ...objects.flatMap((o) => problems(byKind[String(o.kind)] ?? 'kubernetes-1.34.json', o)),
    ],
  }
}

export const checkCompose = (data: unknown): string[] => problems('compose-spec.json', data)

export type ProtoTree = { readonly [field: string]: (string | number | boolean | ProtoTree)[] }

/**
 * Reads protobuf text format: every field as the list of its values. Strings come back unescaped,
 * enum names as text.
 * @throws on bad syntax
 */
export function readTextProto(text: string): ProtoTree {
  const tokens =
    text.replace(/#.*$/gm, '').match(/"(?:\\.|[^"\\])*"|[{}:[\],]|[^\s{}:[\],"]+/g) ?? []
  let at = 0
  const value = (): string | number | boolean => {
    const token = tokens[at++]
    if (token === undefined || /^[{}:[\],]$/.test(token))
      throw new SyntaxError(`a value is missing before ${token}`)
    if (token.startsWith('"'))
      return JSON.parse(
        token.replace(
          /\\([0-7]{3})/g,
          (_, octal) => `\\u00${Number.parseInt(octal, 8).toString(16).padStart(2, '0')}`,
        ),
      )
    return token === 'true' || token === 'false'
      ? token === 'true'
      : Number.isNaN(Number(token))
        ? token
        : Number(token)
  }
  const message = (closing: boolean): ProtoTree => {
    const tree: Record<string, (string | number | boolean | ProtoTree)[]> = {}
    while (at < tokens.length && tokens[at] !== '}') {
      const field = tokens[at++]!
      if (!/^[a-z_]+$/.test(field)) throw new SyntaxError(`${field} is no field name`)
      const values = tree[field] ?? []
      tree[field] = values
      if (tokens[at] === ':') at++
      if (tokens[at] === '{') {
        at++
        values.push(message(true))
      } else values.push(value())
    }
    if (closing && tokens[at++] !== '}') throw new SyntaxError('a } is missing')
    return tree
  }
  const tree = message(false)
  if (at < tokens.length) throw new SyntaxError(`unexpected ${tokens[at]}`)
  return tree
}

type Fields = { readonly [field: string]: 'int' | 'bool' | 'string' | readonly string[] | Fields }
const wrapped = { value: 'int' } as const

/**
 * The messages of the official .proto files, as far as tune writes them:
 * tensorflow_serving/servables/tensorflow/session_bundle_config.proto,
 */
export const batchingParameters: Fields = {
  max_batch_size: wrapped,
  batch_timeout_micros: wrapped,
  num_batch_threads: wrapped,
  max_enqueued_batches: wrapped,
  allowed_batch_sizes: 'int',
  pad_variable_length_inputs: 'bool',
}
/** tensorflow_serving/config/model_server_config.proto, */
export const modelServerConfig: Fields = {
  model_config_list: {
    config: {
      name: 'string',
      base_path: 'string',
      model_platform: 'string',
      model_version_policy: {
        latest: { num_versions: 'int' },
        all: {},
        specific: { versions: 'int' },
      },
    },
  },
}
/** and protobuf/model_config.proto of triton-inference-server/common. */
export const tritonModelConfig: Fields = {
  name: 'string',
  platform: 'string',
  ensemble_scheduling: {
    step: {
      model_name: 'string',
      model_version: 'int',
      input_map: { key: 'string', value: 'string' },
      output_map: { key: 'string', value: 'string' },
    },
  },
  version_policy: { all: {}, latest: { num_versions: 'int' }, specific: { versions: 'int' } },
  backend: 'string',
  max_batch_size: 'int',
  dynamic_batching: {
    preferred_batch_size: 'int',
    max_queue_delay_microseconds: 'int',
    default_queue_policy: { max_queue_size: 'int' },
    preserve_ordering: 'bool',
  },
  instance_group: {
    count: 'int',
    kind: ['KIND_AUTO', 'KIND_GPU', 'KIND_CPU', 'KIND_MODEL'],
    gpus: 'int',
  },
}

/** Fields that a message does not have, or of another type. */
export function checkProto(tree: ProtoTree, fields: Fields, path = ''): string[] {
  return Object.entries(tree).flatMap(([name, values]) => {
    const kind = fields[name]
    if (kind === undefined) return [`${path}${name}: no such field`]
    return values.flatMap((value) => {
      if (typeof kind === 'object' && !Array.isArray(kind)) {
        return typeof value === 'object'
          ? checkProto(value, kind as Fields, `${path}${name}.`)
          : [`${path}${name}: not a message`]
      }
      const fine = Array.isArray(kind)
        ? kind.includes(value)
        : kind === 'int'
          ? Number.isInteger(value)
          : kind === 'bool'
            ? typeof value === 'boolean'
            : typeof value === 'string'
      return fine ? [] : [`${path}${name}: ${JSON.stringify(value)} is no ${kind}`]
    })
  })
}
