/**
 * What NVIDIA's MIG manager was told to cut a node's GPUs into (label nvidia.com/mig.config), held
 * against what they can be cut into and what is there.
 */
import type { V1Node } from '@kubernetes/client-node'
import { gpuCatalogue } from '../../devices/catalogue.ts'
import { migProfilesOf } from '../../devices/mig.ts'
import { quantity } from './failures.ts'
import { gpuOfProduct } from './gpu-names.ts'

const configLabel = 'nvidia.com/mig.config'
/** What its manager says of it: pending, rebooting, success, failed. */
const stateLabel = 'nvidia.com/mig.config.state'

/**
 * What is wrong with the slices of nodes, a sentence for each; a custom layout of the user's own is
 * not judged.
 */
export const migFaults = (nodes: readonly V1Node[]): string[] =>
  nodes.flatMap((node) => faultOf(node) ?? [])

function faultOf({ metadata, status }: V1Node): string | undefined {
  const labels = metadata?.labels ?? {}
  const config = labels[configLabel]
  if (config === undefined || config === 'all-disabled') return undefined
  const said = `node ${metadata?.name}: ${configLabel}=${config}`
  const state = labels[stateLabel]
  if (state !== undefined && state !== 'success')
    return `${said} is ${state}${state === 'failed' ? ": see the log of NVIDIA's MIG manager" : ', and its slices are not there yet'}`
  const cannot = impossibleLayout(labels, config)
  if (cannot !== undefined) return `${said}: ${cannot}`
  const profile = profileOf(config)
  if (profile === undefined || gpuOf(labels) === undefined) return undefined
  const advertised = Object.entries(status?.allocatable ?? {}).some(
    ([resource, amount]) =>
      (resource === `nvidia.com/mig-${profile}` || resource === 'nvidia.com/gpu') &&
      quantity(amount) > 0,
  )
  return advertised
    ? undefined
    : `${said}: the device plugin offers no such slice (its MIG strategy may be none)`
}

/** The one profile that the operator's own layouts cut whole GPUs into: all-1g.5gb. */
const profileOf = (layout: string): string | undefined => /^all-(\d+g\.\d+gb)$/.exec(layout)?.[1]

type Labels = Readonly<Record<string, string>>

function gpuOf(labels: Labels) {
  const product = labels['nvidia.com/gpu.product']?.replace(/-MIG-.*$/, '')
  const name = product === undefined ? undefined : gpuOfProduct(product)
  return gpuCatalogue.find((one) => one.name === name)
}

/** Why the GPUs of a node cannot be cut so; undefined: they can, or it is not known. */
function impossibleLayout(labels: Labels, layout: string): string | undefined {
  const [profile, gpu] = [profileOf(layout), gpuOf(labels)]
  if (profile === undefined || gpu === undefined) return undefined
  const known = migProfilesOf(gpu).map((one) => one.name)
  if (known.includes(profile)) return undefined
  return `a ${gpu.name} has no such slice${known.length > 0 ? `; it has ${known.join(', ')}` : ''}`
}
