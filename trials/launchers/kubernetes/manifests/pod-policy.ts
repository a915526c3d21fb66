/**
 * Security settings and overlays for pods of our own images, in trials and deployments: the Pod
 * Security profile `restricted`
 * (https://kubernetes.io/docs/concepts/security/pod-security-standards/), with the user's overlay.
 */
type Fields = { [key: string]: unknown }

/** The user's overlay of a generated pod: metadata and spec. */
export interface PodOverlay {
  readonly metadata?: { readonly labels?: Fields; readonly annotations?: Fields }
  readonly spec?: Fields
}

/** User id of the images, and group id of volumes. */
export const imageUserId = 1000

const restrictedPod: Fields = {
  runAsNonRoot: true,
  runAsUser: imageUserId,
  seccompProfile: { type: 'RuntimeDefault' },
}
export const restrictedContainer: Fields = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
}

/** Creates the spec of a pod with one container of our own images. */
export const createRestrictedSpec = (container: string): Fields => ({
  securityContext: restrictedPod,
  containers: [{ name: container, securityContext: restrictedContainer }],
})

/** Merge keys of lists: items with equal keys are merged, others are added. */
const mergeKeys: Readonly<Record<string, string>> = {
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
 * Merges an overlay like a strategic merge patch of Kubernetes: objects are merged, lists with a
 * merge key by that key, other lists are appended, null deletes. Neither argument is changed.
 */
export function mergeOverlay(base: Fields, overlay: Readonly<Fields> = {}): Fields {
  const merged = Object.entries(overlay).map(
    ([key, value]) => [key, mergeField(key, base[key], value)] as const,
  )
  const result = { ...base, ...Object.fromEntries(merged) }
  return Object.fromEntries(Object.entries(result).filter(([, value]) => value !== null))
}

/**
 * Merges affinities. Terms of required node affinity are alternatives, so each term of one side is
 * combined with each of the other.
 */
export function mergeAffinity(base: Readonly<Fields> = {}, overlay: Readonly<Fields> = {}): Fields {
  const key = 'requiredDuringSchedulingIgnoredDuringExecution'
  const readTerms = (affinity: Readonly<Fields>): readonly Fields[] => {
    const required = (affinity.nodeAffinity as Fields | undefined)?.[key] as
      | { readonly nodeSelectorTerms?: readonly Fields[] }
      | undefined
    return required?.nodeSelectorTerms ?? []
  }
  const [baseTerms, overlayTerms] = [readTerms(base), readTerms(overlay)]
  const merged = mergeOverlay(base, overlay)
  if (baseTerms.length === 0 || overlayTerms.length === 0) return merged
  const nodeSelectorTerms = baseTerms.flatMap((one) =>
    overlayTerms.map((other) => mergeOverlay(one, other)),
  )
  return {
    ...merged,
    nodeAffinity: { ...(merged.nodeAffinity as Fields), [key]: { nodeSelectorTerms } },
  }
}

function mergeField(key: string, base: unknown, value: unknown): unknown {
  if (Array.isArray(value))
    return Array.isArray(base) ? mergeLists(base, value, mergeKeys[key]) : value
  return isObject(value) ? mergeOverlay(isObject(base) ? base : {}, value) : value
}

function mergeLists(
  base: readonly unknown[],
  overlay: readonly unknown[],
  key: string | undefined,
): unknown[] {
  if (key === undefined) return [...base, ...overlay]
  const readKey = (item: unknown) => (isObject(item) ? item[key] : undefined)
  const overlayByKey = new Map(overlay.map((item) => [readKey(item), item]))
  const baseKeys = new Set(base.map(readKey))
  return [
    ...base.map((item) =>
      isObject(item) && overlayByKey.has(readKey(item))
        ? mergeOverlay(item, overlayByKey.get(readKey(item)) as Fields)
        : item,
    ),
    ...overlay.filter((item) => !baseKeys.has(readKey(item))),
  ]
}

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
