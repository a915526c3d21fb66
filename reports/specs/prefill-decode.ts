/**
 * Pools of prefill and decode servers of SGLang behind its router, as its documentation starts them
 * (docs/advanced_features/pd_disaggregation.md and router.md of the stated version): a Deployment
 * of each pool, whose pods the router finds by their labels.
 */
import { assumedTransfers, gpusOfMachine } from '../../trials/launchers/simulated/llm-pools.ts'
import { type Resources, serversOf } from '../../trials/resources.ts'
import { disruptionBudget, labelsOf } from './available.ts'
import { heldOf } from './held.ts'
import { annotationsOf, type Manifest, manifestsYaml, type SpecFile } from './manifest.ts'
import { podStorage, storageOf } from './model-storage.ts'
import { fileMounts } from './pod.ts'
import { claimTemplates, refuseClaim, specGpus } from './pod-gpus.ts'
import { type PodParts, podNotes, podTemplate } from './pod-template.ts'
import { unscaledNote } from './scaling.ts'
import { wholeContainer } from './server-pod.ts'
import type { Serving, WholeContainer } from './serving.ts'

const pools = ['prefill', 'decode'] as const
type Pool = (typeof pools)[number]

/**
 * Where prefill servers tell decode servers how they are reached, SGLang's own; the router reads it
 * off this annotation of their pods.
 */
const bootstrapPort = 8998
const bootstrapAnnotation = 'sglang.ai/bootstrap-port'

const [routerPort, routerMetricsPort] = [8000, 29000]
/** The router's own default turns requests away from 256 at once on. */
const routerConcurrency = 32_768

const componentLabels = (serving: Pick<Serving, 'name'>, component: Pool | 'router') => ({
  ...labelsOf(serving),
  'app.kubernetes.io/component': component,
})

/** What one server of a pool holds. */
function serverServing(serving: Serving, pool: Pool): Serving {
  const { evidence, deployed, figures, configuration, modelUri } = serving
  const { pools: of, ...whole } = serving.resources
  const servers = serversOf(serving.resources)
  const resources: Resources = {
    ...whole,
    gpus: of![`${pool}Gpus`],
    cpuCores: whole.cpuCores / servers,
    memoryMiB: whole.memoryMiB / servers,
  }
  return {
    ...serving,
    resources,
    held: heldOf(evidence, deployed, figures.hold, resources, configuration, modelUri),
  }
}

/**
 * `deployment.yaml` of a serving whose resources have pools. @throws SpecError where one claim of
 * GPUs does not fit both
 */
export function prefillDecodeSpec(serving: Serving, scalerAsked: boolean): SpecFile[] {
  const [prefill, decode] = pools.map((pool) => serverServing(serving, pool)) as [Serving, Serving]
  const alike = prefill.resources.gpus === decode.resources.gpus
  const container = wholeContainer(prefill)
  const gpu = specGpus(prefill.resources, prefill.gpuScheme, prefill.dra)
  if (!alike) refuseClaim(gpu, 'pools whose servers have different numbers of GPUs take')
  const storage = podStorage(storageOf(prefill))
  const files = fileMounts(prefill, container.files)
  const parts = { storage, files, isScraped: false }
  const objects: Manifest[] = [
    ...(files.configMap ? [files.configMap] : []),
    ...claimTemplates(prefill, gpu),
    ...poolObjects(prefill, 'prefill', serving.replicas * serving.resources.pools!.prefill, parts),
    ...poolObjects(decode, 'decode', serving.replicas * serving.resources.pools!.decode, parts),
    ...routerObjects(serving, container),
  ]
  const notes = [
    ...podNotes(serving, { container, storage }, gpu),
    ...poolNotes(serving),
    ...(alike ? [] : [unlikeNote]),
    ...(scalerAsked ? [unscaledNote(serving)] : []),
  ]
  const held = alike
    ? sourcesOf(prefill, 'each server')
    : pools.flatMap((pool, i) => sourcesOf([prefill, decode][i]!, `each ${pool} server`))
  return [
    {
      name: 'deployment.yaml',
      text: manifestsYaml({ ...serving, sources: withHeld(serving, held) }, objects, notes),
    },
  ]
}

const unlikeNote =
  'prefill and decode servers have different numbers of GPUs: SGLang warns of slower key-value transfers, which were not modelled'

const sourcesOf = ({ held }: Serving, whose: string): Serving['sources'] =>
  held.sources.map(({ value, from }) => ({ value: `${value} (${whose})`, from }))

/** What is held is said of one server, not of all of them as if they were one. */
const withHeld = ({ sources, held }: Serving, own: Serving['sources']): Serving['sources'] =>
  sources.flatMap((source) => {
    const place = held.sources.indexOf(source)
    if (place < 0) return [source]
    return place === 0 ? own : []
  })

type Parts = Omit<PodParts, 'container' | 'several'>

function poolObjects(each: Serving, pool: Pool, replicas: number, parts: Parts): Manifest[] {
  const container = wholeContainer(each)
  const labels = componentLabels(each, pool)
  const several = replicas > 1
  const template = podTemplate(
    each,
    {
      ...parts,
      container: { ...container, args: [...(container.args ?? []), ...poolArgs[pool]] },
      several,
    },
    labels,
  )
  const metadata = template.metadata as { readonly annotations?: Manifest }
  const annotations = {
    ...metadata.annotations,
    ...(pool === 'prefill' && { [bootstrapAnnotation]: String(bootstrapPort) }),
  }
  const name = `${each.name}-${pool}`
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, labels, annotations: annotationsOf(each) },
      spec: {
        replicas,
        selector: { matchLabels: labels },
        progressDeadlineSeconds: each.held.progressSeconds,
        template: {
          ...template,
          metadata: { ...metadata, ...(Object.keys(annotations).length > 0 && { annotations }) },
        },
      },
    },
    ...disruptionBudget({ ...each, name }, several, labels),
  ]
}

const poolArgs: Readonly<Record<Pool, readonly string[]>> = {
  prefill: [
    '--disaggregation-mode=prefill',
    '--disaggregation-transfer-backend=nixl',
    `--disaggregation-bootstrap-port=${bootstrapPort}`,
  ],
  decode: ['--disaggregation-mode=decode', '--disaggregation-transfer-backend=nixl'],
}

/** The router, what it may look at, and the Service that is asked. */
function routerObjects(
  serving: Serving,
  { image, port }: Pick<WholeContainer, 'image' | 'port'>,
): Manifest[] {
  const labels = componentLabels(serving, 'router')
  const name = `${serving.name}-router`
  const selector = (pool: Pool) => [
    `--${pool}-selector`,
    ...Object.entries(componentLabels(serving, pool)).map(([key, value]) => `${key}=${value}`),
  ]
  const probe = (path: string) => ({ httpGet: { path, port: 'http' }, periodSeconds: 5 })
  const container = {
    name: 'router',
    image,
    command: ['python3', '-m', 'sglang_router.launch_router'],
    args: [
      '--pd-disaggregation',
      '--service-discovery',
      '--service-discovery-namespace=$(POD_NAMESPACE)',
      `--service-discovery-port=${port}`,
      ...pools.flatMap(selector),
      '--policy=round_robin',
      `--max-concurrent-requests=${routerConcurrency}`,
      '--host=0.0.0.0',
      `--port=${routerPort}`,
      '--prometheus-host=0.0.0.0',
      `--prometheus-port=${routerMetricsPort}`,
    ],
    env: [{ name: 'POD_NAMESPACE', valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } } }],
    ports: [{ name: 'http', containerPort: routerPort }],
    readinessProbe: probe('/readiness'),
    livenessProbe: probe('/liveness'),
    resources: { requests: { cpu: '1', memory: '1Gi' } },
  }
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, labels } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata: { name, labels },
      rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name, labels },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name }],
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, labels },
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: { serviceAccountName: name, containers: [container] },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: serving.name, labels },
      spec: { selector: labels, ports: [{ name: 'http', port: 80, targetPort: 'http' }] },
    },
  ]
}

function poolNotes({ replicas, resources }: Serving): string[] {
  const { prefill, decode } = resources.pools!
  const { nvlink, network } = assumedTransfers
  return [
    `ASSUMED, NOT MEASURED: the key-value transfer rate from prefill to decode servers (${nvlink.gbPerS} GB/s per GPU over NVLink where both fit into ${gpusOfMachine} GPUs, else ${network.gbPerS} GB/s, unless the experiment sets predictor.kvTransfer). Between pods NIXL uses RDMA where it is available, else TCP, which is slower; NVLink between pods needs settings beyond this file`,
    `${replicas} x (${prefill} prefill + ${decode} decode) servers behind one router with round-robin balancing; this was never applied to a cluster with GPUs`,
    "the router is part of the server's image and reads the pods of its namespace (Role); the price does not include its core",
    'scale both pools together: their ratio was tuned',
  ]
}
