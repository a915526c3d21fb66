/**
 * The way that users' requests take to a predictor, where load is to take it too: a Service of each
 * trial, and a gateway in front of it. What a mesh's sidecars need stands here as well.
 */
import { type Json, labelNames, type Owner, ownerReferences } from './manifests.ts'
import type { PodOverlay } from './pod-policy.ts'

/**
 * `service`: the name of a Service, by the node's proxy or the mesh. A gateway routes to that
 * Service.
 */
export type Through = 'service' | GatewayWay

interface GatewayWay {
  /**
   * Its address, as a pod of the cluster calls it; `${service}` and `${namespace}` stand for the
   * trial's own.
   */
  readonly gateway: string
  /** Of every request, `host` among them; with the same placeholders. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * A Gateway of the Gateway API: an HTTPRoute of each trial hangs on it. Absent: the gateway finds
   * the Service by what the address or a header says.
   */
  readonly parent?: {
    readonly name: string
    readonly namespace?: string
    readonly sectionName?: string
  }
}

/** How a predictor is called by that way. */
export interface Way {
  /** In words: 'the Service', 'the gateway http://...'. */
  readonly name: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Tells the trials of one gateway apart. */
const trialHeader = 'x-tune-trial'

export const gatewayGroup = 'gateway.networking.k8s.io/v1'

/** What the load generator calls. @param service name of the trial's Service, which is its pod's */
export function wayOf(
  through: Through,
  at: { readonly service: string; readonly namespace: string; readonly port: number },
): Way {
  const { service, namespace, port } = at
  if (through === 'service')
    return { name: 'the Service', url: `http://${service}.${namespace}.svc:${port}`, headers: {} }
  const filled = (text: string) => withValues(text, service, namespace)
  const headers = Object.fromEntries(
    Object.entries(through.headers ?? {}).map(([name, value]) => [name, filled(value)]),
  )
  const url = filled(through.gateway)
  return {
    name: `the gateway ${through.gateway}`,
    url,
    headers: { ...headers, ...(through.parent && { [trialHeader]: service }) },
  }
}

const withValues = (text: string, service: string, namespace: string): string =>
  text.replaceAll('${service}', service).replaceAll('${namespace}', namespace)

/** Whether a gateway that is given no route can tell one trial from another. */
export const tellsTrialsApart = ({ gateway, headers, parent }: GatewayWay): boolean =>
  parent !== undefined ||
  [gateway, ...Object.values(headers ?? {})].some((text) => text.includes('${service}'))

interface TrialObject {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  readonly port: number
}

/**
 * The Service of one trial's pod. Its port is named as meshes want it: they treat what they know as
 * HTTP so.
 */
export function trialService(
  { name, labels, owner, port }: TrialObject,
  speaks: 'http' | 'grpc',
): Json {
  const chosen = [labelNames.experiment, labelNames.trial, labelNames.role].map((label) => [
    label,
    labels[label],
  ])
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, labels, ownerReferences: ownerReferences(owner) },
    spec: {
      selector: Object.fromEntries(chosen),
      ports: [{ name: speaks, port, targetPort: port, appProtocol: speaks }],
    },
  }
}

/** The HTTPRoute of one trial, where the user's gateway takes any. */
export function trialRoute(
  through: Through,
  { name, labels, owner, port }: TrialObject,
  namespace: string,
): Json | undefined {
  if (through === 'service' || through.parent === undefined) return undefined
  const host = Object.entries(through.headers ?? {}).find(
    ([header]) => header.toLowerCase() === 'host',
  )?.[1]
  return {
    apiVersion: gatewayGroup,
    kind: 'HTTPRoute',
    metadata: { name, labels, ownerReferences: ownerReferences(owner) },
    spec: {
      parentRefs: [through.parent],
      // A route without names takes those of the Gateway's listener.
      ...(host !== undefined && {
        hostnames: [withValues(host, name, namespace).replace(/:\d+$/, '')],
      }),
      rules: [
        {
          matches: [{ headers: [{ name: trialHeader, value: name }] }],
          backendRefs: [{ name, port }],
        },
      ],
    },
  }
}

export const meshes = ['istio', 'linkerd'] as const
export type Mesh = (typeof meshes)[number]

/**
 * What makes a mesh give a pod its sidecar, and hold the pod's own container back until that works.
 */
const injection: Readonly<
  Record<
    Mesh,
    { readonly labels?: Record<string, string>; readonly annotations: Record<string, string> }
  >
> = {
  istio: {
    labels: { 'sidecar.istio.io/inject': 'true' },
    annotations: { 'proxy.istio.io/config': '{"holdApplicationUntilProxyStarts": true}' },
  },
  linkerd: {
    annotations: { 'linkerd.io/inject': 'enabled', 'config.linkerd.io/proxy-await': 'enabled' },
  },
}

/** A pod's metadata with a mesh's sidecar asked for; what the user says himself stands. */
export function inMesh<T extends PodOverlay>(
  mesh: Mesh | undefined,
  pod: T | undefined,
): T | undefined {
  if (mesh === undefined) return pod
  const { labels, annotations } = injection[mesh]
  const { metadata } = pod ?? {}
  return {
    ...(pod as T),
    metadata: {
      ...metadata,
      ...((labels || metadata?.labels) && { labels: { ...labels, ...metadata?.labels } }),
      annotations: { ...annotations, ...metadata?.annotations },
    },
  }
}
