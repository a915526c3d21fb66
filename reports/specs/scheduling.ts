/**
 * Restricts pods to nodes with their GPU, by the schemes of trials, and to nodes of their price.
 */
import {
  claimName,
  createClaimTemplate,
  type DraOptions,
} from '../../trials/launchers/kubernetes/gpus/dra.ts'
import {
  chooseDefaultScheme,
  createGpuTolerations,
  type GpuScheme,
  GpuSchemeError,
  type GpuSelection,
  selectGpu,
} from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import type { Resources } from '../../trials/resources.ts'
import type { Labels } from './availability.ts'
import { type Manifest, omitEmpty } from './manifest.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'

/**
 * Fields of a pod for a GPU share under a scheme.
 * @throws SpecError if the scheme cannot provide that share
 */
export function selectGpus(
  resources: Resources,
  scheme: GpuScheme | undefined = chooseDefaultScheme(resources),
  dra?: DraOptions,
): GpuSelection {
  try {
    return selectGpu(resources, scheme, dra)
  } catch (error) {
    if (error instanceof GpuSchemeError) throw new SpecError(error.message, error.hint)
    throw error
  }
}

export const selectServingGpus = ({ resources, gpuScheme, dra }: Serving): GpuSelection =>
  selectGpus(resources, gpuScheme, dra)

/** Prerequisites of a scheme. */
export const describeGpuNeeds = ({ needs }: Pick<GpuSelection, 'needs'>): string[] =>
  needs.map((need) => `needs: ${need}`)

/** Nodes of the instance type that the price is for; undefined: the price is of no instance. */
export const buildNodeSelector = ({
  instanceType,
}: Pick<Serving, 'instanceType'>): Labels | undefined =>
  instanceType === undefined ? undefined : { 'node.kubernetes.io/instance-type': instanceType }

/**
 * Fields of a pod's spec that choose its node.
 * @param siblings labels of pods that should run on other nodes, if possible
 */
export const buildScheduling = (
  serving: Serving,
  gpu: GpuSelection,
  siblings?: Labels,
): Manifest => ({
  schedulerName: gpu.schedulerName,
  nodeSelector: buildNodeSelector(serving),
  affinity: omitEmpty({
    ...(gpu.requirements.length > 0 && {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions: gpu.requirements }],
        },
      },
    }),
    ...(siblings && {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight: 100,
            podAffinityTerm: {
              topologyKey: 'kubernetes.io/hostname',
              labelSelector: { matchLabels: siblings },
            },
          },
        ],
      },
    }),
  }),
  resourceClaims: buildPodClaims(serving, gpu),
  tolerations: serving.resources.gpu === undefined ? undefined : createGpuTolerations(gpu),
})

/**
 * Builds the template of each pod's claim, for DRA. None for another scheme, or if a
 * claim is shared.
 */
export const buildClaimTemplates = (serving: Serving, { claim }: GpuSelection): Manifest[] =>
  claim === undefined || serving.replicaPlan?.claim
    ? []
    : [createClaimTemplate(claim, { name: nameClaimTemplate(serving) })]

/** Builds the pod's part of a claim; the container's is `buildContainerClaims`. */
export const buildPodClaims = (
  serving: Serving,
  { claim }: GpuSelection,
): Manifest[] | undefined =>
  claim === undefined
    ? undefined
    : [
        {
          name: claimName,
          ...(serving.replicaPlan?.claim
            ? { resourceClaimName: serving.replicaPlan.claim }
            : { resourceClaimTemplateName: nameClaimTemplate(serving) }),
        },
      ]

export const buildContainerClaims = ({ claim }: GpuSelection): Manifest[] | undefined =>
  claim === undefined ? undefined : [{ name: claimName }]

const nameClaimTemplate = ({ name }: Serving): string => `${name}-gpu`

/**
 * @param subject beginning of the message: 'Knative takes'
 * @throws SpecError if the GPU is a claim, which has no place there
 */
export function refuseClaim({ claim }: GpuSelection, subject: string): void {
  if (claim !== undefined) {
    throw new SpecError(
      `${subject} no resourceClaims, which GPU scheme dra needs`,
      'use --target kubernetes, or another --gpu-scheme',
    )
  }
}
