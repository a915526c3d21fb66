/**
 * The user's pod overlay (`kubernetes.pod`) on the pods of every target: the policies of a cluster
 * require the same of all of them.
 */
import { builtinContainer } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import {
  createRestrictedSpec,
  imageUserId,
  mergeAffinity,
  mergeOverlay,
  type PodOverlay,
  restrictedContainer,
} from '../../trials/launchers/kubernetes/manifests/pod-policy.ts'
import { type Manifest, removeUndefined } from './manifest.ts'
import type { Serving } from './serving.ts'

/** Metadata and spec of a pod, as far as a target writes them. */
interface Pod {
  readonly metadata: Manifest
  readonly spec: Manifest
}

/**
 * Fields of the overlay's container that apply to another server than the built-in predictor, for
 * which it was written: how a container runs, not what it runs.
 */
const policyFields: ReadonlySet<string> = new Set([
  'name',
  'securityContext',
  'resources',
  'volumeMounts',
  'imagePullPolicy',
])

/**
 * The pod with the policy of its trials: the restricted profile for the built-in predictor, and
 * the user's overlay. Tuned and measured values stay: resources of the server's container, labels
 * that others select by, the nodes that have its GPU.
 * @param container name of the server's container in this target
 */
export function applyOverlay(
  { deployed, overlay }: Pick<Serving, 'deployed' | 'overlay'>,
  pod: Pod,
  container: string,
): Pod {
  const trialPod = removeUndefined(pod)
  const isBuiltin = deployed.server === 'builtin'
  const basePod = isBuiltin ? restrictPod(trialPod, container) : trialPod
  if (overlay === undefined) return basePod
  const renamedOverlay = renameContainer(overlay, container, isBuiltin)
  const { affinity, ...baseSpec } = basePod.spec
  const { affinity: overlayAffinity, ...overlaySpec } = renamedOverlay.spec ?? {}
  const spec = mergeOverlay(baseSpec, overlaySpec)
  const tunedResources = listContainers(basePod.spec).find(
    ({ name }) => name === container,
  )?.resources
  // Labels of the target win; lists and maps of the overlay are merged into its spec.
  return {
    metadata: mergeOverlay(mergeOverlay({}, renamedOverlay.metadata), basePod.metadata),
    spec: {
      ...spec,
      ...((affinity ?? overlayAffinity) !== undefined && {
        affinity: mergeAffinity(affinity as Manifest, overlayAffinity as Manifest),
      }),
      containers: listContainers(spec).map((one) =>
        one.name === container && tunedResources !== undefined
          ? {
              ...one,
              resources: mergeOverlay(one.resources as Manifest, tunedResources as Manifest),
            }
          : one,
      ),
    },
  }
}

/** Fields of the overlay that have no place in a container of another server. */
export function describeOverlay({ deployed, overlay }: Serving): string[] {
  if (overlay === undefined || deployed.server === 'builtin') return []
  const overlayContainer =
    listContainers(overlay.spec).find(({ name }) => name === builtinContainer) ?? {}
  const ignored = Object.keys(overlayContainer).filter((field) => !policyFields.has(field))
  return ignored.length === 0
    ? []
    : [
        `kubernetes.pod was written for the built-in predictor: ${ignored.join(', ')} of its container ${ignored.length === 1 ? 'is' : 'are'} left out here`,
      ]
}

/** The same for a format that has no pods. */
export const describeIgnoredOverlay = ({ overlay }: Serving): string[] =>
  overlay === undefined
    ? []
    : ['kubernetes.pod is not applied here: it is an overlay for the pods of a cluster']

const listContainers = (spec: Manifest = {}): readonly Manifest[] =>
  (spec.containers as readonly Manifest[] | undefined) ?? []

/**
 * Renames the overlay's container, which has the built-in predictor's name, to that of this target.
 */
function renameContainer(
  { metadata, spec }: PodOverlay,
  container: string,
  isBuiltin: boolean,
): PodOverlay {
  if (spec?.containers === undefined) return { metadata, spec }
  const containers = listContainers(spec).map((one) => {
    if (one.name !== builtinContainer) return one
    const fields = Object.entries({ ...one, name: container })
    return Object.fromEntries(
      isBuiltin ? fields : fields.filter(([field]) => policyFields.has(field)),
    )
  })
  return { metadata, spec: { ...spec, containers } }
}

/** The built-in predictor and the container that fetches its weights run as in their trials. */
function restrictPod({ metadata, spec }: Pod, container: string): Pod {
  const initContainers = (spec.initContainers as Manifest[] | undefined)?.map(({ name }) => ({
    name,
    securityContext: restrictedContainer,
  }))
  const restricted = mergeOverlay(
    { ...createRestrictedSpec(container), ...(initContainers && { initContainers }) },
    spec,
  )
  return { metadata, spec: mergeOverlay(restricted, { securityContext: { fsGroup: imageUserId } }) }
}
