/**
 * What the user lays over pods (`kubernetes.pod`), in the pods of every target: a cluster's
 * policies ask the same of all of them.
 */
import type { GpuSelection } from '../../trials/launchers/kubernetes/gpu-selection.ts'
import { builtinContainer } from '../../trials/launchers/kubernetes/manifests.ts'
import {
  overlaid,
  overlaidAffinity,
  type PodOverlay,
  restrictedContainer,
  restrictedSpec,
  user,
} from '../../trials/launchers/kubernetes/pod-policy.ts'
import type { Manifest } from './manifest.ts'
import { nodePlacement } from './platform-pod.ts'
import type { Serving } from './serving.ts'

/** Metadata and spec of a pod, as far as a target writes them. */
interface PodPart {
  readonly metadata: Manifest
  readonly spec: Manifest
}

interface PodMetadata {
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

/** Of a container of another server than the one it was written for: how it is run, not what. */
const policyFields: ReadonlySet<string> = new Set([
  'name',
  'securityContext',
  'resources',
  'volumeMounts',
  'imagePullPolicy',
])

/**
 * A pod as a target would write it, with what its trials were made with: the built-in predictor's
 * as the restricted profile asks, and the user's overlay on it. What was tuned and measured stays:
 * resources of the server's container, labels that others select by, the nodes that have its GPU.
 * @param container the name that the server's container has in this target
 */
export function laidOver({ deployed, overlay }: Serving, pod: PodPart, container: string): PodPart {
  const base = deployed.server === 'builtin' ? restricted(pod, container) : pod
  if (overlay === undefined) return base
  const over = renamed(overlay, container, deployed.server === 'builtin')
  const { affinity, ...rest } = base.spec
  const { affinity: theirs, ...more } = over.spec ?? {}
  const both =
    affinity === undefined && theirs === undefined
      ? undefined
      : overlaidAffinity(affinity as Manifest, theirs as Manifest)
  const spec = overlaid(rest, more)
  const tuned = containersOf(base.spec).find(({ name }) => name === container)?.resources
  return {
    metadata: overlaid(overlaid({}, over.metadata), base.metadata),
    spec: {
      ...spec,
      ...(both && { affinity: both }),
      containers: containersOf(spec).map((one) =>
        one.name === container && tuned !== undefined
          ? { ...one, resources: overlaid(one.resources as Manifest, tuned as Manifest) }
          : one,
      ),
    },
  }
}

/**
 * `laidOver` of a pod beside whose containers and volumes only its GPU asks for something: nodes,
 * claims, annotations.
 * @param spec containers, volumes and whatever the target has beside
 * @param more labels and annotations of the target's own
 */
export function placedPod(
  serving: Serving,
  gpu: GpuSelection,
  spec: Manifest,
  container: string,
  more: PodMetadata = {},
): PodPart {
  const annotations = { ...gpu.annotations, ...more.annotations }
  const metadata = {
    ...(more.labels && { labels: more.labels }),
    ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
  }
  return laidOver(
    serving,
    { metadata, spec: { ...nodePlacement(serving, gpu), ...spec } },
    container,
  )
}

/** What of the overlay has no place in a container of another server. */
export function overlayNotes({ deployed, overlay }: Serving): string[] {
  if (overlay === undefined || deployed.server === 'builtin') return []
  const own = containersOf(overlay.spec).find(({ name }) => name === builtinContainer) ?? {}
  const left = Object.keys(own).filter((field) => !policyFields.has(field))
  return left.length === 0
    ? []
    : [
        `kubernetes.pod was written for the built-in predictor: ${left.join(', ')} of its container ${left.length === 1 ? 'is' : 'are'} left out here`,
      ]
}

/** In a format that has no pods. */
export const podlessNotes = ({ overlay }: Serving): string[] =>
  overlay === undefined
    ? []
    : ['kubernetes.pod is not applied here: it is an overlay for the pods of a cluster']

const containersOf = (spec: Manifest = {}): readonly Manifest[] =>
  (spec.containers as readonly Manifest[] | undefined) ?? []

/** The overlay names the built-in predictor's container. */
function renamed({ metadata, spec }: PodOverlay, container: string, own: boolean): PodOverlay {
  if (spec?.containers === undefined) return { metadata, spec }
  const containers = containersOf(spec).map((one) => {
    if (one.name !== builtinContainer) return one
    const fields = Object.entries({ ...one, name: container })
    return Object.fromEntries(own ? fields : fields.filter(([field]) => policyFields.has(field)))
  })
  return { metadata, spec: { ...spec, containers } }
}

/** The built-in predictor's image, and what fetches its weights, run as their trials did. */
function restricted({ metadata, spec }: PodPart, container: string): PodPart {
  const initContainers = (spec.initContainers as Manifest[] | undefined)?.map(({ name }) => ({
    name,
    securityContext: restrictedContainer,
  }))
  const asked = overlaid(
    { ...restrictedSpec(container), ...(initContainers && { initContainers }) },
    spec,
  )
  return { metadata, spec: overlaid(asked, { securityContext: { fsGroup: user } }) }
}
