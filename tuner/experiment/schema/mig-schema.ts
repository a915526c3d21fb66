/** Nodes and what their GPUs are cut into, as the file and a flag say it. */
import { z } from 'zod'

const layout = z
  .string({ error: 'expected the name of a layout' })
  .regex(/^[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/, {
    error: 'expected a layout of the MIG manager, e.g. all-1g.5gb',
  })
export const migLayouts = z
  .union(
    [
      z.record(z.string(), layout, { error: 'expected node: layout pairs' }),
      z
        .string()
        .regex(/^[^=,\s]+=[\w.-]+(,[^=,\s]+=[\w.-]+)*$/, {
          error: 'expected node=layout, e.g. gpu-1=all-1g.5gb',
        })
        .transform((list) =>
          Object.fromEntries(list.split(',').map((pair) => pair.split('=') as [string, string])),
        ),
    ],
    { error: 'expected node: layout pairs, or node=layout, e.g. gpu-1=all-1g.5gb' },
  )
  .describe(
    'cuts the GPUs of these nodes before the first trial, and tells them at the end to be as they were: node → layout of the MIG manager, e.g. {gpu-1: all-1g.5gb}; no other node is touched',
  )
