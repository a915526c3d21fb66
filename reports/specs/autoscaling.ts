/**
 * Autoscalers at the measured capacity of one replica, for figures that hold of what is deployed.
 * They read a counter that the measured server exports, else CPU usage or a mesh's counter.
 */
import { rate } from '../format.ts'
import { buildBehaviour, type ScalingBehaviour } from '../plan/hpa.ts'
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'
import type { Autoscaler } from './target.ts'

/**
 * Name of the per-pod metric that the autoscaler reads: requests per second, from Prometheus
 * through an adapter.
 */
const rateMetric = 'inference_requests_per_second'

/**
 * Least share of the cores that must be busy at the capacity for CPU usage to stand for load. With
 * a lower share, something else is the bottleneck. Assumed.
 */
const minCpuBusyShare = 0.5

/** Objects and notes of the autoscaler of one Deployment. */
interface Autoscaling {
  /** Empty: the number of replicas is fixed, and a note says why. */
  readonly objects: readonly Manifest[]
  readonly notes: readonly string[]
  /** Whether Prometheus reads a counter of the pods themselves. */
  readonly isScraped: boolean
  /** Namespace that the query names; absent: there is no query. */
  readonly namespace?: string
}

/** @param deployment the Deployment to scale */
export function buildAutoscaling(
  serving: Serving,
  requested: Autoscaler,
  { deployment, prometheus }: { readonly deployment: string; readonly prometheus?: string },
): Autoscaling {
  const buildFixed = (...notes: string[]) => ({ objects: [], notes, isScraped: false })
  if (requested === 'none') return buildFixed()
  if (!serving.isScalable) return buildFixed(describeFixedReplicas(serving))
  const isCounted = serving.container.requestsMetric !== undefined
  if (requested === 'keda')
    return {
      objects: [buildScaledObject(serving, deployment, prometheus)],
      notes: [describeRateRange(serving), describeKeda(serving, prometheus)],
      isScraped: isCounted,
      namespace: resolveQueryNamespace(serving),
    }
  const target = { apiVersion: 'apps/v1', kind: 'Deployment', name: deployment }
  if (isCounted)
    return {
      objects: [buildHpa(serving, target, buildRateMetrics(serving))],
      notes: [describeRateRange(serving), describeAdapter(serving.container.requestsMetric)],
      isScraped: true,
    }
  const cpu = resolveCpuTarget(serving)
  if ('problem' in cpu)
    return buildFixed(
      `no autoscaler: this server exports no request counter that tune knows, and ${cpu.problem}. --autoscaler keda scales on requests that Istio counts`,
    )
  return {
    objects: [buildHpa(serving, target, [buildCpuMetric(cpu.percent)])],
    notes: [describeRange(serving), describeCpuTarget(cpu.percent, '--autoscaler keda')],
    isScraped: false,
  }
}

/** CPU usage, in per cent of the request, at capacity × (1 − headroom), or why it is no signal. */
export function resolveCpuTarget({
  evidence: { cpuCoresBusy },
  requirements: { cpuCores },
  resources: { gpu },
  headroom,
}: Serving): { readonly percent: number } | { readonly problem: string } {
  if (gpu !== undefined) return { problem: 'CPU usage does not follow the load of a GPU server' }
  if (cpuCoresBusy === undefined || cpuCores === undefined)
    return { problem: 'its CPU usage was not measured' }
  const busyShare = cpuCoresBusy / cpuCores
  if (busyShare < minCpuBusyShare)
    return {
      problem: `its cores are only ${Math.round(100 * busyShare)} % busy at the capacity, so CPU usage does not reflect the load`,
    }
  return { percent: Math.min(100, Math.max(1, Math.round(100 * busyShare * (1 - headroom)))) }
}

export const buildCpuMetric = (averageUtilization: number): Manifest => ({
  type: 'Resource',
  resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization } },
})

/** @param alternative the flag that scales on requests */
export const describeCpuTarget = (percent: number, alternative: string): string =>
  `the CPU target of ${percent} % is the usage measured at the capacity x (1 - headroom); it needs the metrics server. ${alternative} scales on requests, the better signal`

/** Bounds of an autoscaler, and where they come from. */
export function describeRange({
  minReplicas,
  maxReplicas,
  requestedBounds,
  isSized,
}: Serving): string {
  const describeSource = (value: number | undefined, computed: string) =>
    value === undefined ? computed : 'requested'
  const min = describeSource(
    requestedBounds.minReplicas,
    isSized ? 'enough for the demand' : 'no demand is configured',
  )
  const max = describeSource(
    requestedBounds.maxReplicas,
    maxReplicas === minReplicas ? 'the minimum' : 'twice as many as the demand needs',
  )
  return `scales from ${minReplicas} (${min}) to ${maxReplicas} replicas (${max})`
}

/** Bounds of an autoscaler, with the rate of each replica. */
export const describeRateRange = (serving: Serving): string =>
  `${describeRange(serving)} at ${rate(serving.perReplicaRps)} per replica: safe capacity x (1 - headroom)`

/** HorizontalPodAutoscaler within the bounds of the serving. */
function buildHpa(
  serving: Serving,
  scaleTargetRef: Manifest,
  metrics: readonly Manifest[],
): Manifest {
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: serving.name, labels: { 'app.kubernetes.io/name': serving.name } },
    spec: {
      scaleTargetRef,
      minReplicas: serving.minReplicas,
      maxReplicas: serving.maxReplicas,
      metrics,
      behavior: resolveBehaviour(serving),
    },
  }
}

export const buildRateMetrics = (serving: Serving): readonly Manifest[] => [
  {
    type: 'Pods',
    pods: {
      metric: { name: rateMetric },
      target: { type: 'AverageValue', averageValue: formatRate(serving.perReplicaRps) },
    },
  },
]

/**
 * 24.5 req/s → '24500m', as a quantity of Kubernetes has no decimals. It is rounded down, so that
 * replicas are added rather early.
 */
const formatRate = (rps: number): string =>
  rps >= 100 || Number.isInteger(rps) ? String(Math.floor(rps)) : `${Math.floor(rps * 1000)}m`

/**
 * Scaling rates: those of a plan, or else made from the measured start. Undefined, for the
 * autoscaler's defaults, if there is neither.
 */
export const resolveBehaviour = ({ scaling, evidence }: Serving): ScalingBehaviour | undefined =>
  scaling ?? buildBehaviour(evidence.launchSeconds)

export const describeAdapter = (requestsMetric: string | undefined): string =>
  `the autoscaler needs a metrics adapter that serves ${rateMetric} per pod, such as prometheus-adapter with metricsQuery sum(rate(${requestsMetric}{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)`

/** Why the number of replicas is fixed, where the capacity is no basis for an autoscaler. */
export const describeFixedReplicas = ({ figures }: Pick<Serving, 'figures'>): string =>
  `no autoscaler: ${figures.apply ? 'the measured capacity is only an upper bound, or was refuted' : 'the capacity of this server was not measured'}, so the number of replicas is fixed. Run tune verify once it runs, and scale at the rate that it confirms`

export const defaultPrometheus = 'http://prometheus.monitoring:9090'

/**
 * Namespace that a query names. If the serving has none, the objects are given this one too, so
 * that both agree.
 */
export const resolveQueryNamespace = ({ namespace }: Serving): string => namespace ?? 'default'

/**
 * Total rate of one Deployment's pods, requests per second: by the server's own counter, else by
 * Istio's. Pod names end in the hash of a ReplicaSet and five characters: bert-large is not bert.
 */
export function buildRateQuery(serving: Serving, deployment: string): string {
  const { requestsMetric } = serving.container
  const namespace = resolveQueryNamespace(serving)
  return requestsMetric === undefined
    ? `sum(rate(${meshMetric}{reporter="destination",destination_workload_namespace="${namespace}",destination_workload="${deployment}"}[1m]))`
    : `sum(rate(${requestsMetric}{namespace="${namespace}",pod=~"${deployment}-[a-z0-9]{6,10}-[a-z0-9]{5}"}[1m]))`
}

/** Counter of Istio's sidecars, for any server. */
const meshMetric = 'istio_requests_total'

/** Rate per replica as a decimal for KEDA, rounded down so that replicas are added rather early. */
export const formatThreshold = (serving: Serving): string =>
  String(Math.floor(serving.perReplicaRps * 10) / 10)

/**
 * KEDA ScaledObject: the total request rate in Prometheus, divided by the rate of one replica.
 * @param deployment the Deployment to scale
 */
function buildScaledObject(
  serving: Serving,
  deployment: string,
  prometheus = defaultPrometheus,
): Manifest {
  const behavior = resolveBehaviour(serving)
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledObject',
    metadata: { name: serving.name },
    spec: {
      scaleTargetRef: { name: deployment },
      minReplicaCount: serving.minReplicas,
      maxReplicaCount: serving.maxReplicas,
      advanced: behavior && { horizontalPodAutoscalerConfig: { behavior } },
      triggers: [
        {
          type: 'prometheus',
          metricType: 'AverageValue',
          metadata: {
            serverAddress: prometheus,
            query: buildRateQuery(serving, deployment),
            threshold: formatThreshold(serving),
          },
        },
      ],
    },
  }
}

export function describeKeda(serving: Serving, prometheus?: string): string {
  const { requestsMetric } = serving.container
  const address =
    prometheus === undefined
      ? `${defaultPrometheus} (assumed; --prometheus sets another)`
      : prometheus
  const counter =
    requestsMetric === undefined
      ? `has Istio's ${meshMetric}: this server exports no request counter that tune knows, so the pods need Istio's sidecar`
      : `scrapes ${requestsMetric} of these pods`
  return `the autoscaler needs KEDA, and a Prometheus at ${address} that ${counter}. Namespace: ${resolveQueryNamespace(serving)} (--namespace sets another)`
}
