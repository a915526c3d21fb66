/**
 * Pools of prefill and decode servers of SGLang behind its router, as its documentation starts them
 * (docs/advanced_features/pd_disaggregation.md and router.md of the stated version): a Deployment
 * for each pool, whose pods the router finds by their labels.
 */
import { assumedTransfers, gpusOfMachine } from '../../../trials/launchers/simulated/llm-pools.ts'
import { countServers } from '../../../trials/resources.ts'
import { describeFixedReplicas } from '../autoscaling.ts'
import { buildDisruptionBudget, buildLabels } from '../availability.ts'
import { buildContainer } from '../container.ts'
import { resizeServing } from '../create-serving.ts'
import { type Manifest, omitEmpty } from '../manifest.ts'
import { buildPodStorage, resolveStorage } from '../model-storage.ts'
import { buildConfigMaps, buildPodTemplate, describePod, type PodParts } from '../pod.ts'
import { buildAnnotations, describeRequirements } from '../provenance.ts'
import { buildClaimTemplates, refuseClaim, selectServingGpus } from '../scheduling.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import type { SpecContent } from '../target.ts'

const poolNames = ['prefill', 'decode'] as const
type Pool = (typeof poolNames)[number]

/**
 * SGLang's default port on which prefill servers tell decode servers their addresses. The router
 * reads it from an annotation of the prefill pods.
 */
const bootstrapPort = 8998
const bootstrapAnnotation = 'sglang.ai/bootstrap-port'

const [routerPort, routerMetricsPort] = [8000, 29000]
/** Most requests at once. The router's own default, 256, would refuse more. */
const routerConcurrency = 32_768

const buildComponentLabels = (serving: Pick<Serving, 'name'>, component: Pool | 'router') => ({
  ...buildLabels(serving),
  'app.kubernetes.io/component': component,
})

/** The serving of one server of a pool. */
function selectServer(serving: Serving, pool: Pool): Serving {
  const { pools, ...replica } = serving.resources
  const servers = countServers(serving.resources)
  return resizeServing(serving, {
    ...replica,
    gpus: pools![`${pool}Gpus`],
    cpuCores: replica.cpuCores / servers,
    memoryMiB: replica.memoryMiB / servers,
  })
}

/**
 * Manifests of a serving whose resources have pools.
 * @param isScalerRequested adds a note that says why there is no autoscaler
 * @throws SpecError if one claim of GPUs does not fit both pools
 */
export function renderPools(
  serving: Serving,
  isScalerRequested: boolean,
): Omit<SpecContent, 'name'> {
  const [prefill, decode] = [selectServer(serving, 'prefill'), selectServer(serving, 'decode')]
  const areAlike = prefill.resources.gpus === decode.resources.gpus
  const container = buildContainer(prefill)
  const gpu = selectServingGpus(prefill)
  if (!areAlike) refuseClaim(gpu, 'pools whose servers have different numbers of GPUs take')
  const storage = buildPodStorage(resolveStorage(prefill))
  const parts = { storage, isScraped: false }
  const counts = serving.resources.pools!
  return {
    body: [
      ...buildConfigMaps(prefill, container),
      ...buildClaimTemplates(prefill, gpu),
      ...buildPool(prefill, 'prefill', serving.replicas * counts.prefill, parts),
      ...buildPool(decode, 'decode', serving.replicas * counts.decode, parts),
      ...buildRouter(serving, container),
    ],
    notes: [
      ...describePod(serving, { container, storage }, gpu),
      ...describePools(serving),
      ...(areAlike
        ? []
        : [
            'prefill and decode servers have different numbers of GPUs: SGLang warns of slower key-value transfers, which were not modelled',
          ]),
      ...(isScalerRequested ? [describeFixedReplicas(serving)] : []),
    ],
    requirements: areAlike
      ? describeRequirements(prefill.requirements, 'each server')
      : [
          ...describeRequirements(prefill.requirements, 'each prefill server'),
          ...describeRequirements(decode.requirements, 'each decode server'),
        ],
  }
}

type SharedParts = Omit<PodParts, 'container' | 'isReplicated'>

function buildPool(server: Serving, pool: Pool, replicas: number, parts: SharedParts): Manifest[] {
  const name = `${server.name}-${pool}`
  const labels = buildComponentLabels(server, pool)
  const isReplicated = replicas > 1
  const container = buildContainer(server)
  const args = [...(container.args ?? []), ...poolArgs[pool]]
  const template = buildPodTemplate(
    server,
    { ...parts, container: { ...container, args }, isReplicated },
    labels,
  )
  const metadata = template.metadata as { readonly annotations?: Manifest }
  return [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, labels, annotations: buildAnnotations(server) },
      spec: {
        replicas,
        selector: { matchLabels: labels },
        progressDeadlineSeconds: server.requirements.progressSeconds,
        template: {
          ...template,
          metadata: {
            ...metadata,
            annotations: omitEmpty({
              ...metadata.annotations,
              ...(pool === 'prefill' && { [bootstrapAnnotation]: String(bootstrapPort) }),
            }),
          },
        },
      },
    },
    ...buildDisruptionBudget({ name }, isReplicated, labels),
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

/** Builds the router, its access to pods, and the Service that clients use. */
function buildRouter(
  serving: Serving,
  { image, port }: Pick<ServerContainer, 'image' | 'port'>,
): Manifest[] {
  const labels = buildComponentLabels(serving, 'router')
  const name = `${serving.name}-router`
  const formatSelector = (pool: Pool) => [
    `--${pool}-selector`,
    ...Object.entries(buildComponentLabels(serving, pool)).map(([key, value]) => `${key}=${value}`),
  ]
  const createProbe = (path: string) => ({ httpGet: { path, port: 'http' }, periodSeconds: 5 })
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
          spec: {
            serviceAccountName: name,
            containers: [
              {
                name: 'router',
                image,
                command: ['python3', '-m', 'sglang_router.launch_router'],
                args: [
                  '--pd-disaggregation',
                  '--service-discovery',
                  '--service-discovery-namespace=$(POD_NAMESPACE)',
                  `--service-discovery-port=${port}`,
                  ...poolNames.flatMap(formatSelector),
                  '--policy=round_robin',
                  `--max-concurrent-requests=${routerConcurrency}`,
                  '--host=0.0.0.0',
                  `--port=${routerPort}`,
                  '--prometheus-host=0.0.0.0',
                  `--prometheus-port=${routerMetricsPort}`,
                ],
                env: [
                  {
                    name: 'POD_NAMESPACE',
                    valueFrom: { fieldRef: { fieldPath: 'metadata.namespace' } },
                  },
                ],
                ports: [{ name: 'http', containerPort: routerPort }],
                readinessProbe: createProbe('/readiness'),
                livenessProbe: createProbe('/liveness'),
                resources: { requests: { cpu: '1', memory: '1Gi' } },
              },
            ],
          },
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

function describePools({ replicas, resources }: Serving): string[] {
  const { prefill, decode } = resources.pools!
  const { nvlink, network } = assumedTransfers
  return [
    `ASSUMED, NOT MEASURED: the key-value transfer rate from prefill to decode servers (${nvlink.gbPerS} GB/s per GPU over NVLink where both fit into ${gpusOfMachine} GPUs, else ${network.gbPerS} GB/s, unless the experiment sets predictor.kvTransfer). Between pods NIXL uses RDMA where it is available, else TCP, which is slower; NVLink between pods needs settings beyond this file`,
    `${replicas} x (${prefill} prefill + ${decode} decode) servers behind one router with round-robin balancing; this was never applied to a cluster with GPUs`,
    "the router is part of the server's image and reads the pods of its namespace (Role); the price does not include its core",
    'scale both pools together: their ratio was tuned',
  ]
}
