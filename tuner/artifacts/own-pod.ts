/**
 * Specs deploy the user's own pod template with the tuned values in its container and no other
 * change.
 */

import { buildNodeSelector, buildPodClaims } from '../../reports/specs/scheduling.ts'
import { replacePodSecrets } from '../../reports/specs/secret-variables.ts'
import type { Serving } from '../../reports/specs/serving.ts'
import { selectGpu } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { createTrialPod, type Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import type { Experiment } from '../config/types.ts'

/** Node selector of the priced instance type; the user's own selector takes precedence. */
const buildPodNodeSelector = (serving: Serving, { nodeSelector }: Json): Json =>
  serving.instanceType === undefined
    ? {}
    : { nodeSelector: { ...buildNodeSelector(serving), ...(nodeSelector as Json | undefined) } }

/**
 * Puts the user's own pod into a serving, if the experiment has one.
 * @throws LaunchError and GpuSchemeError, as a trial does
 */
export function applyOwnPod(
  { kubernetes, predictor, space }: Experiment,
  serving: Serving,
): Serving {
  const { pod, container } = kubernetes ?? {}
  if (
    !pod ||
    container === undefined ||
    predictor.kind !== 'command' ||
    serving.deployed.server !== 'command'
  )
    return serving
  const { configuration, resources: requested } = serving
  const scheme = serving.gpuScheme ?? kubernetes?.gpuScheme
  const port = kubernetes?.port ?? serving.container.port
  const gpu = selectGpu(requested, scheme, serving.dra)
  const trialPod = createTrialPod({
    name: serving.name,
    labels: {},
    owner: { name: '', uid: '' },
    template: predictor,
    own: { pod, container },
    port,
    parameters: space.parameters,
    configuration,
    trialNumber: 0,
    requested,
    gpu,
    claimTemplateName: `${serving.name}-gpu`,
    deadlineS: 0,
  })
  const claims = buildPodClaims(serving, gpu)
  const { annotations } = trialPod.metadata as Json
  const { schedulerName, affinity, tolerations, containers } = trialPod.spec as Json
  // Take only what the configuration determines from the pod of a trial: deadline and
  // anti-affinity are for trials.
  const podSpec = pod.spec as Json
  const { nodeAffinity } = affinity as Json
  const replaced = replacePodSecrets(
    {
      metadata: {
        ...(pod.metadata as Json | undefined),
        ...(annotations === undefined ? {} : { annotations }),
      },
      spec: {
        ...podSpec,
        ...(schedulerName === undefined ? {} : { schedulerName }),
        ...buildPodNodeSelector(serving, podSpec),
        ...(nodeAffinity === undefined
          ? {}
          : { affinity: { ...(podSpec.affinity as Json | undefined), nodeAffinity } }),
        ...(tolerations === undefined ? {} : { tolerations }),
        ...(claims && { resourceClaims: claims }),
        containers,
      },
    },
    serving.name,
  )
  return {
    ...serving,
    gpuScheme: scheme,
    container: { ...serving.container, port, secretEnv: replaced.secretEnv },
    pod: replaced.pod,
  }
}
