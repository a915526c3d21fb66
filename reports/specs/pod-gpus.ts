/** The GPU part of a deployment spec: the schemes that trials use on a cluster. */
import { claimName, claimTemplate, type DraOptions } from '../../trials/launchers/kubernetes/dra.ts'
import {
  defaultScheme,
  type GpuScheme,
  GpuSchemeError,
  type GpuSelection,
  gpuSelection,
} from '../../trials/launchers/kubernetes/gpu-selection.ts'
import type { Resources } from '../../trials/resources.ts'
import type { Manifest } from './manifest.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'

/**
 * The pod's part of a GPU share under a scheme.
 * @throws SpecError when the scheme cannot give that share.
 */
export function specGpus(
  resources: Resources,
  scheme: GpuScheme | undefined = defaultScheme(resources),
  dra?: DraOptions,
): GpuSelection {
  try {
    return gpuSelection(resources, scheme, dra)
  } catch (error) {
    if (error instanceof GpuSchemeError) throw new SpecError(error.message, error.hint)
    throw error
  }
}

const instanceLabel = 'node.kubernetes.io/instance-type'

/** Nodes of the instance whose price was reckoned with. Empty: the price is of none. */
export const nodesBought = ({
  instanceType,
}: Pick<Serving, 'instanceType'>): Readonly<Record<string, string>> =>
  instanceType === undefined ? {} : { [instanceLabel]: instanceType }

/** The same as a field of a pod's spec. */
export const instanceSelector = (serving: Pick<Serving, 'instanceType'>): Manifest =>
  serving.instanceType === undefined ? {} : { nodeSelector: nodesBought(serving) }

/**
 * With DRA: the template that each pod's claim is made from; nothing else, nor where a claim is
 * shared.
 */
export const claimTemplates = (serving: Serving, { claim }: GpuSelection): Manifest[] =>
  claim === undefined || serving.placed?.claim
    ? []
    : [claimTemplate(claim, { name: templateName(serving) })]

/** The pod's part of a claim, and the container's. */
export const podClaims = (serving: Serving, { claim }: GpuSelection): Manifest =>
  claim === undefined ? {} : { resourceClaims: [{ name: claimName, ...claimedBy(serving) }] }
export const containerClaims = ({ claim }: GpuSelection): Manifest =>
  claim === undefined ? {} : { claims: [{ name: claimName }] }

const claimedBy = (serving: Serving) =>
  serving.placed?.claim
    ? { resourceClaimName: serving.placed.claim }
    : { resourceClaimTemplateName: templateName(serving) }
const templateName = (serving: Serving) => `${serving.name}-gpu`

/** @param what 'Knative takes' @throws SpecError where a claim has no place */
export function refuseClaim({ claim }: GpuSelection, what: string): void {
  if (claim !== undefined) {
    throw new SpecError(
      `${what} no resourceClaims, which GPU scheme dra needs`,
      'use --target kubernetes, or another --gpu-scheme',
    )
  }
}
