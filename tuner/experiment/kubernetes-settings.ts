/** The cluster part of an experiment: the pod template and which of its containers is tuned. */
import type { SearchSpace } from '../../search/types.ts'
import type { Context } from './context.ts'
import { defaults } from './names.ts'
import type { KubernetesSpec } from './types.ts'

interface Container {
  readonly name?: unknown
  readonly ports?: readonly { readonly containerPort?: unknown }[]
}

export function resolveKubernetes({ entries, report }: Context): KubernetesSpec | undefined {
  const given = entries.kubernetes
  if (given === undefined) return undefined
  if ((entries.backend ?? defaults.backend) !== 'kubernetes')
    report(
      ['kubernetes'],
      `a kubernetes section with backend ${entries.backend ?? defaults.backend}`,
      'say backend: kubernetes, or leave the section out',
    )
  if (given.pod === undefined) return given
  if (entries.predictor?.command !== undefined || entries.predictor?.engine !== undefined || entries.predictor?.url !== undefined)
    report(
      ['predictor'],
      'a predictor beside a pod template',
      'the pod is the predictor: of `predictor` keep protocol, path, envNames and argFormat at most',
    )
  const containers = containersOf(given.pod)
  if (containers.length === 0) {
    report(
      ['kubernetes', 'pod'],
      'kubernetes.pod: no containers with a name',
      'a pod template has spec: {containers: [{name, image, ...}]}',
    )
    return given
  }
  const names = containers.map((container) => String(container.name))
  const container = given.container ?? (names.length === 1 ? names[0] : undefined)
  if (container === undefined)
    report(['kubernetes', 'pod'], `kubernetes.pod: which of its containers is tuned: ${names.join(', ')}?`, 'say container: NAME')
  else if (!names.includes(container))
    report(['kubernetes', 'container'], `kubernetes.container: the pod has no container ${container}`, `it has ${names.join(', ')}`)
  const port = given.port ?? containers.find(({ name }) => name === container)?.ports?.[0]?.containerPort
  return { ...given, container, port: typeof port === 'number' ? port : undefined }
}

/** Containers of a pod template that have a name. */
export function containersOf(pod: Readonly<Record<string, unknown>>): Container[] {
  const spec = pod.spec as { containers?: unknown } | null | undefined
  if (!Array.isArray(spec?.containers)) return []
  return (spec.containers as (Container | null)[]).filter((container): container is Container => typeof container?.name === 'string')
}

/** A pod that holds GPUs has a price only if their model is known. */
export function checkPodGpu({ report }: Context, space: SearchSpace): void {
  const has = (name: string) => space.parameters.some((parameter) => parameter.name === name)
  if (has('gpus') && !has('gpu'))
    report(['kubernetes', 'pod'], 'the pod asks for a GPU, but not for which', 'say it: --gpus T4, or --pin gpu=T4')
}
