/** What NVIDIA's MIG manager was told to cut a node's GPUs into (label nvidia.com/mig.config), held against what they can be cut into and what is there. */
import type { V1Node } from '@kubernetes/client-node'
import { gpuCatalogue } from '../../devices/catalogue.ts'
import { migProfilesOf } from '../../devices/mig.ts'
import { quantity } from './failures.ts'
import { gpuOfProduct } from './gpu-names.ts'

/** What is wrong with the slices of nodes, a sentence for each; a custom layout of the user's own is not judged. */
export const migFaults = (nodes: readonly V1Node[]): string[] => nodes.flatMap((node) => faultOf(node) ?? [])

function faultOf({ metadata, status }: V1Node): string | undefined {
  const labels = metadata?.labels ?? {}
  const config = labels['nvidia.com/mig.config']
  if (config === undefined || config === 'all-disabled') return undefined
  const said = `node ${metadata?.name}: nvidia.com/mig.config=${config}`
  const state = labels['nvidia.com/mig.config.state']
  if (state !== undefined && state !== 'success')
    return `${said} is ${state}${state === 'failed' ? ": the log of NVIDIA's MIG manager says why" : ', and its slices are not there yet'}`
  const profile = /^all-(\d+g\.\d+gb)$/.exec(config)?.[1]
  const product = labels['nvidia.com/gpu.product']?.replace(/-MIG-.*$/, '')
  const name = product === undefined ? undefined : gpuOfProduct(product)
  const gpu = gpuCatalogue.find((one) => one.name === name)
  if (profile === undefined || gpu === undefined) return undefined
  const known = migProfilesOf(gpu).map((one) => one.name)
  if (!known.includes(profile)) return `${said}: a ${gpu.name} has no such slice${known.length > 0 ? `; it has ${known.join(', ')}` : ''}`
  const advertised = Object.entries(status?.allocatable ?? {}).some(
    ([resource, amount]) => (resource === `nvidia.com/mig-${profile}` || resource === 'nvidia.com/gpu') && quantity(amount) > 0,
  )
  return advertised ? undefined : `${said}: the device plugin offers no such slice (MIG strategy none?)`
}
