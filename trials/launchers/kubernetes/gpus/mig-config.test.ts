import type { V1Node } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { listMigFaults } from './mig-config.ts'

const node = (
  config: string,
  more: Record<string, string> = {},
  allocatable: Record<string, string> = {},
): V1Node =>
  ({
    metadata: {
      name: 'n',
      labels: {
        'nvidia.com/gpu.product': 'NVIDIA-A100-SXM4-40GB',
        'nvidia.com/mig.config': config,
        ...more,
      },
    },
    status: { allocatable },
  }) as V1Node
const success = { 'nvidia.com/mig.config.state': 'success' }

test.each<[string, V1Node, RegExp]>([
  [
    'not cut yet',
    node('all-1g.5gb', { 'nvidia.com/mig.config.state': 'pending' }),
    /all-1g.5gb is pending, and its slices are not there yet/,
  ],
  [
    'that failed',
    node('all-1g.5gb', { 'nvidia.com/mig.config.state': 'failed' }),
    /is failed: see the log of NVIDIA's MIG manager/,
  ],
  [
    'a slice that it has not',
    node('all-1g.12gb', success),
    /A100-40GB has no such slice; it has 1g.5gb, 1g.10gb, 2g.10gb/,
  ],
  ['not offered', node('all-2g.10gb', success, { 'nvidia.com/gpu': '0' }), /offers no such slice/],
])('MIG %s is told', (_, one, said) => {
  const [fault] = listMigFaults([one])
  expect(fault).toMatch(said)
  expect(fault).toContain('node n: nvidia.com/mig.config=')
})

test.each([
  node('all-disabled'),
  node('my-own-layout', success),
  node('all-1g.5gb', success, { 'nvidia.com/mig-1g.5gb': '7' }),
  node(
    'all-1g.5gb',
    { ...success, 'nvidia.com/gpu.product': 'NVIDIA-A100-SXM4-40GB-MIG-1g.5gb' },
    { 'nvidia.com/gpu': '7' },
  ),
])("what is as it was told to be, or is nobody else's to judge, is no fault: %#", (one) => {
  expect(listMigFaults([one])).toEqual([])
})
