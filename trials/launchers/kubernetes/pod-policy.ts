/**
 * How pods of our own images run, trials and deployments alike: as Pod Security's profile
 * `restricted` asks (https://kubernetes.io/docs/concepts/security/pod-security-standards/), and
 * with what the user lays over them.
 */
type Fields = { [key: string]: unknown }

/** Metadata and spec of a pod as a user writes them: laid over a pod that is made here. */
export interface PodOverlay {
  readonly metadata?: { readonly labels?: Fields; readonly annotations?: Fields }
  readonly spec?: Fields
}

/** The images' own user, and the group that volumes are given to. */
export const user = 1000

const restrictedPod: Fields = {
  runAsNonRoot: true,
  runAsUser: user,
  seccompProfile: { type: 'RuntimeDefault' },
}
export const restrictedContainer: Fields = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
}

/** A pod of one container of our own images. */
export const restrictedSpec = (container: string): Fields => ({
  securityContext: restrictedPod,
  containers: [{ name: container, securityContext: restrictedContainer }],
})

/**
 * Lists whose items are told apart by a key: an item of the same key is merged, any other is added.
 */
const keys: Readonly<Record<string, string>> = {
  containers: 'name',
  initContainers: 'name',
  volumes: 'name',
  volumeMounts: 'mountPath',
  env: 'name',
  ports: 'containerPort',
  imagePullSecrets: 'name',
  resourceClaims: 'name',
  hostAliases: 'ip',
  topologySpreadConstraints: 'topologyKey',
}

/**
 * One object laid over another as a strategic merge patch of Kubernetes is: objects are merged,
 * lists with a key by it, other lists are added to, null takes away. Neither argument is changed.
 */
export function overlaid(base: Fields, over: Readonly<Fields> = {}): Fields {
  const merged = Object.entries(over).map(
    ([key, value]) => [key, laidOver(key, base[key], value)] as const,
  )
  const kept = { ...base, ...Object.fromEntries(merged) }
  return Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== null))
}

/**
 * Where a pod may run, with more asked of it. Terms of required node affinity are alternatives:
 * each of one side must hold together with each of the other.
 */
export function overlaidAffinity(base: Readonly<Fields> = {}, over: Readonly<Fields> = {}): Fields {
  const key = 'requiredDuringSchedulingIgnoredDuringExecution'
  const termsOf = (affinity: Readonly<Fields>): readonly Fields[] => {
    const required = (affinity.nodeAffinity as Fields | undefined)?.[key] as
      | { readonly nodeSelectorTerms?: readonly Fields[] }
      | undefined
    return required?.nodeSelectorTerms ?? []
  }
  const [ours, theirs] = [termsOf(base), termsOf(over)]
  const merged = overlaid(base, over)
  if (ours.length === 0 || theirs.length === 0) return merged
  const nodeSelectorTerms = ours.flatMap((one) => theirs.map((other) => overlaid(one, other)))
  return {
    ...merged,
    nodeAffinity: { ...(merged.nodeAffinity as Fields), [key]: { nodeSelectorTerms } },
  }
}

function laidOver(key: string, below: unknown, value: unknown): unknown {
  if (Array.isArray(value)) return Array.isArray(below) ? joined(below, value, keys[key]) : value
  return isObject(value) ? overlaid(isObject(below) ? below : {}, value) : value
}

function joined(
  below: readonly unknown[],
  above: readonly unknown[],
  key: string | undefined,
): unknown[] {
  if (key === undefined) return [...below, ...above]
  const keyOf = (item: unknown) => (isObject(item) ? item[key] : undefined)
  const of = new Map(above.map((item) => [keyOf(item), item]))
  const there = new Set(below.map(keyOf))
  return [
    ...below.map((item) =>
      isObject(item) && of.has(keyOf(item)) ? overlaid(item, of.get(keyOf(item)) as Fields) : item,
    ),
    ...above.filter((item) => !there.has(keyOf(item))),
  ]
}

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
