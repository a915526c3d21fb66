/**
 * Applies the user's pod overlay (`kubernetes.pod`) to the pods of every target, because the
 * policies of a cluster apply to all pods alike.
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
 * Container fields of the overlay that also apply to servers other than the built-in predictor: how
 * a container runs (security, mounts), not what it runs (image, command).
 */
const policyFields: ReadonlySet<string> = new Set([
  'name',
  'securityContext',
  'resources',
  'volumeMounts',
  'imagePullPolicy',
])

/**
 * Applies the pod policy of the trials: the restricted profile for the built-in predictor, and the
 * user's overlay. Labels of the target and resources of its server container win over the overlay;
 * the node affinities of both must hold.
 * @param container name of the server's container in this target
 */
export function applyOverlay(
  { deployed, overlay }: Pick<Serving, 'deployed' | 'overlay'>,
  pod: Pod,
  container: string,
): Pod {
  const targetPod = removeUndefined(pod)
  const isBuiltin = deployed.server === 'builtin'
  const basePod = isBuiltin ? restrictPod(targetPod, container) : targetPod
  if (overlay === undefined) return basePod
  const renamedOverlay = renameContainer(overlay, container, isBuiltin)
  const { affinity, ...baseSpec } = basePod.spec
  const { affinity: overlayAffinity, ...overlaySpec } = renamedOverlay.spec ?? {}
  const spec = mergeOverlay(baseSpec, overlaySpec)
  const tunedResources = listContainers(basePod.spec).find(
    ({ name }) => name === container,
  )?.resources
  return {
    // Labels of the target win, because others select by them.
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

/** Notes which overlay fields are not applied, because the server is not the built-in predictor. */
export function describeIgnoredFields({ deployed, overlay }: Serving): string[] {
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

/** Notes that the overlay is ignored by a format without pods. */
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

/**
 * Adds the restricted security context that the built-in predictor has in trials to its container,
 * and to the init container that downloads its weights.
 */
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
