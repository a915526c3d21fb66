/**
 * The pod template of an experiment on a cluster, with the tuned values in its container and
 * nothing else changed: what a spec deploys.
 */

import { buildNodeSelector, buildPodClaims } from '../../reports/specs/scheduling.ts'
import { replacePodSecrets } from '../../reports/specs/secret-variables.ts'
import type { Serving } from '../../reports/specs/serving.ts'
import { selectGpu } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { createTrialPod, type Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import type { Experiment } from '../config/types.ts'

/**
 * Nodes that the price was for, beside what the user's pod selects; the user's own word goes
 * before.
 */
const nodeSelectorOf = (serving: Serving, { nodeSelector }: Json): Json =>
  serving.instanceType === undefined
    ? {}
    : { nodeSelector: { ...buildNodeSelector(serving), ...(nodeSelector as Json | undefined) } }

/**
 * The same serving around the user's own pod, where the experiment has one. Throws LaunchError and
 * GpuSchemeError as a trial would.
 */
export function withOwnPod(
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
  const tuned = createTrialPod({
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
  const { annotations } = tuned.metadata as Json
  const { schedulerName, affinity, tolerations, containers } = tuned.spec as Json
  // Of the trial's pod only what the configuration decides: its deadline and its distance from
  // other trials belong to trials.
  const own = pod.spec as Json
  const { nodeAffinity } = affinity as Json
  const secret = replacePodSecrets(
    {
      metadata: {
        ...(pod.metadata as Json | undefined),
        ...(annotations === undefined ? {} : { annotations }),
      },
      spec: {
        ...own,
        ...(schedulerName === undefined ? {} : { schedulerName }),
        ...nodeSelectorOf(serving, own),
        ...(nodeAffinity === undefined
          ? {}
          : { affinity: { ...(own.affinity as Json | undefined), nodeAffinity } }),
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
    container: { ...serving.container, port, secretEnv: secret.secretEnv },
    pod: secret.pod,
  }
}
