// Cuts the official schemas down to what tune writes, closed: an unknown field fails. Cutting can
// only make them stricter.
//   node reports/specs/schemas/reduce.mjs FOLDER
// FOLDER holds kubernetes-1.34-openapi-v2.json (kubernetes-client/javascript 1.4.0), crds/*.yaml
// (kserve/kserve v0.20, kubedl-io/kubedl, kedacore/keda) and compose-spec.json
// (compose-spec/compose-spec). The Seldon schema is written by hand, see README.md.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

const here = dirname(fileURLToPath(import.meta.url))
const folder = process.argv[2]
const read = (name) => readFileSync(join(folder, name), 'utf8')
const write = (name, schema) => writeFileSync(join(here, name), `${JSON.stringify(schema)}\n`)
const dropped = new Set(['description', 'format', 'nullable', 'title', 'example'])

/** Without prose, closed wherever properties are listed and unknown ones are not preserved. */
function close(schema) {
  if (Array.isArray(schema)) return schema.map(close)
  if (typeof schema !== 'object' || schema === null) return schema
  if (schema['x-kubernetes-int-or-string'] || schema.format === 'int-or-string') return { type: ['integer', 'string'] }
  const out = {}
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'properties') out.properties = Object.fromEntries(Object.entries(value).map(([name, s]) => [name, close(s)]))
    else if (!key.startsWith('x-') && key !== 'default' && !(dropped.has(key) && typeof value !== 'object')) out[key] = close(value)
  }
  if (schema.properties && !schema['x-kubernetes-preserve-unknown-fields'] && out.additionalProperties === undefined) out.additionalProperties = false
  return out
}
const only = (schema, names) => ({ ...schema, properties: Object.fromEntries(names.map((n) => [n, schema.properties[n] ?? fail(n)])) })
const without = (schema, names) => ({ ...schema, properties: Object.fromEntries(Object.entries(schema.properties).filter(([n]) => !names.includes(n))) })
const fail = (name) => {
  throw new Error(`the official schema has no ${name} any more`)
}

const official = JSON.parse(read('kubernetes-1.34-openapi-v2.json')).definitions
const roots = {
  Deployment: 'io.k8s.api.apps.v1.Deployment',
  Service: 'io.k8s.api.core.v1.Service',
  ConfigMap: 'io.k8s.api.core.v1.ConfigMap',
  HorizontalPodAutoscaler: 'io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler',
  PodDisruptionBudget: 'io.k8s.api.policy.v1.PodDisruptionBudget',
  Pod: 'io.k8s.api.core.v1.Pod',
  Job: 'io.k8s.api.batch.v1.Job',
  CronJob: 'io.k8s.api.batch.v1.CronJob',
  PersistentVolumeClaim: 'io.k8s.api.core.v1.PersistentVolumeClaim',
  NetworkPolicy: 'io.k8s.api.networking.v1.NetworkPolicy',
  ServiceAccount: 'io.k8s.api.core.v1.ServiceAccount',
  Role: 'io.k8s.api.rbac.v1.Role',
  RoleBinding: 'io.k8s.api.rbac.v1.RoleBinding',
  ClusterRole: 'io.k8s.api.rbac.v1.ClusterRole',
  ClusterRoleBinding: 'io.k8s.api.rbac.v1.ClusterRoleBinding',
  ResourceClaimTemplate: ['v1', 'v1beta2', 'v1beta1'].map((version) => `io.k8s.api.resource.${version}.ResourceClaimTemplate`),
  ResourceClaim: 'io.k8s.api.resource.v1.ResourceClaim',
  PriorityClass: 'io.k8s.api.scheduling.v1.PriorityClass',
}
const volumeKinds = ['name', 'configMap', 'csi', 'emptyDir', 'hostPath', 'image', 'persistentVolumeClaim', 'secret']
const definitions = {}
function visit(name) {
  if (definitions[name]) return
  let schema = close(official[name])
  if (name.endsWith('.Quantity')) schema = { type: 'string' }
  if (name.endsWith('.IntOrString')) schema = { type: ['integer', 'string'] }
  if (name.endsWith('.ObjectMeta')) schema = only(schema, ['name', 'namespace', 'labels', 'annotations', 'ownerReferences'])
  if (name.endsWith('core.v1.Volume')) schema = only(schema, volumeKinds)
  if (name.endsWith('PodSpec')) schema = without(schema, ['ephemeralContainers'])
  if (schema.properties?.status) schema = without(schema, ['status'])
  definitions[name] = schema
  JSON.stringify(schema, (key, value) => {
    if (key === '$ref') visit(value.replace('#/definitions/', ''))
    return value
  })
}
for (const root of Object.values(roots).flat()) visit(root)
const ofVersion = (name) => {
  const [gvk] = official[name]['x-kubernetes-group-version-kind']
  const apiVersion = gvk.group ? `${gvk.group}/${gvk.version}` : gvk.version
  return { allOf: [{ $ref: `#/definitions/${name}` }, { properties: { apiVersion: { const: apiVersion } } }] }
}
const kinds = Object.entries(roots).map(([kind, name]) => ({
  if: { properties: { kind: { const: kind } } },
  // biome-ignore lint/suspicious/noThenProperty: a JSON schema keyword
  then: Array.isArray(name) ? { anyOf: name.map(ofVersion) } : ofVersion(name),
}))
write('kubernetes-1.34.json', { required: ['apiVersion', 'kind'], properties: { kind: { enum: Object.keys(roots) } }, allOf: kinds, definitions })

function crd(file, shape) {
  const { group, names, versions } = parse(read(`crds/${file}`)).spec
  const { name, schema } = versions.at(-1)
  const closed = close(schema.openAPIV3Schema)
  const { spec } = closed.properties
  const metadata = {
    type: 'object',
    additionalProperties: false,
    required: ['name'],
    properties: {
      name: { type: 'string' },
      namespace: { type: 'string' },
      labels: { type: 'object', additionalProperties: { type: 'string' } },
      annotations: { type: 'object', additionalProperties: { type: 'string' } },
    },
  }
  return {
    type: 'object',
    additionalProperties: false,
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    properties: { apiVersion: { const: `${group}/${name}` }, kind: { const: names.kind }, metadata, spec: shape(spec) },
  }
}
const podSpec = (schema, unused) => {
  const kept = without(schema, unused.filter((n) => schema.properties[n]))
  const { items } = kept.properties.volumes
  kept.properties.volumes = { ...kept.properties.volumes, items: only(items, volumeKinds.filter((kind) => kind in items.properties)) }
  return kept
}
const frameworks = ['huggingface', 'lightgbm', 'onnx', 'paddle', 'pmml', 'pytorch', 'sklearn', 'tensorflow', 'triton', 'xgboost', 'workerSpec']

write(
  'kserve-v0.20-inferenceservice.json',
  crd('serving.kserve.io_inferenceservices.yaml', (spec) => {
    const kept = only(spec, ['predictor'])
    kept.properties.predictor = podSpec(without(kept.properties.predictor, frameworks), ['initContainers', 'ephemeralContainers'])
    return kept
  }),
)
write('keda-v1alpha1-scaledobject.json', crd('keda.sh_scaledobjects.yaml', (spec) => spec))
write(
  'kubedl-v1alpha1-inference.json',
  crd('serving.kubedl.io_inferences.yaml', (spec) => {
    const template = spec.properties.predictors.items.properties.template
    template.properties.spec = podSpec(template.properties.spec, ['ephemeralContainers'])
    return spec
  }),
)

const compose = JSON.parse(read('compose-spec.json'))
const tidy = (value) => {
  if (Array.isArray(value)) return value.map(tidy)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).filter(([k, v]) => !(dropped.has(k) && typeof v === 'string')).map(([k, v]) => [k, tidy(v)]))
}
const reduced = tidy(compose)
reduced.properties = only(reduced, ['name', 'services', 'configs', 'volumes']).properties
const service = ['image', 'command', 'entrypoint', 'environment', 'ports', 'volumes', 'deploy', 'shm_size', 'healthcheck', 'configs', 'restart', 'depends_on', 'stop_grace_period']
reduced.definitions.service = { ...only(reduced.definitions.service, service), patternProperties: {} }
const needed = new Set()
const reach = (value) =>
  JSON.stringify(value, (key, v) => {
    const name = key === '$ref' && typeof v === 'string' ? v.match(/^#\/definitions\/(\w+)/)?.[1] : undefined
    if (name && !needed.has(name)) {
      needed.add(name)
      reach(reduced.definitions[name])
    }
    return v
  })
reach({ ...reduced, definitions: {} })
reduced.definitions = Object.fromEntries(Object.entries(reduced.definitions).filter(([name]) => needed.has(name)))
reduced.$schema = 'http://json-schema.org/draft-07/schema'
write('compose-spec.json', reduced)
