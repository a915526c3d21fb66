/** Spaces and parameters for the tests of this folder. */
import type {
  CategoricalParameter,
  OrdinalParameter,
  Parameter,
  RangeParameter,
  SearchSpace,
} from '../../types.ts'

export const base = { category: 'server' } as const
export const batch: OrdinalParameter = {
  ...base,
  name: 'batch',
  kind: 'ordinal',
  values: [1, 2, 4, 8],
  scale: 'log',
}
export const loop: CategoricalParameter = {
  ...base,
  name: 'loop',
  kind: 'categorical',
  values: ['sync', 'async'],
}
export const queue: RangeParameter = {
  ...base,
  name: 'queue',
  kind: 'int',
  min: 10,
  max: 30,
  step: 10,
  scale: 'linear',
  when: { text: 'loop = async', holds: (c) => c.loop === 'async' },
}
export const share: RangeParameter = {
  ...base,
  name: 'share',
  kind: 'float',
  min: 0.1,
  max: 1,
  scale: 'log',
}
export const space: SearchSpace = {
  parameters: [batch, loop, queue],
  constraints: [
    { text: 'batch <= queue / 5', holds: (c) => Number(c.batch) <= Number(c.queue) / 5 },
  ],
}

export const whole = (more: object = {}): RangeParameter => ({
  ...base,
  name: 'n',
  kind: 'int',
  min: 1,
  max: 9,
  scale: 'linear',
  ...more,
})
export const real = (more: object = {}): RangeParameter => ({
  ...base,
  name: 'x',
  kind: 'float',
  min: 0,
  max: 1,
  scale: 'linear',
  ...more,
})
export const only = (...parameters: Parameter[]): SearchSpace => ({ parameters, constraints: [] })
