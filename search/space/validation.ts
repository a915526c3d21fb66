import type { Configuration, Parameter, SearchSpace } from '../types.ts'
import {
  countGridCells,
  enumerateConfigurations,
  getDefaultValue,
  isActive,
  maxEnumeratedConfigurations,
  snap,
} from './space.ts'

/** Lists all faults of a space, as messages; empty for a valid space. */
export function validateSpace(space: SearchSpace): string[] {
  const faults: string[] = []
  if (space.parameters.length === 0) faults.push('the search space has no parameters')
  const names = new Set<string>()
  for (const p of space.parameters) {
    if (names.has(p.name)) faults.push(`parameter ${p.name} is declared twice`)
    names.add(p.name)
    faults.push(...findParameterFaults(p).map((fault) => `parameter ${p.name}: ${fault}`))
  }
  if (
    faults.length === 0 &&
    countGridCells(space) <= maxEnumeratedConfigurations &&
    enumerateConfigurations(space).length === 0
  )
    faults.push(
      `no configuration satisfies ${space.constraints.map((c) => `'${c.text}'`).join(' and ')}`,
    )
  return faults
}

function findParameterFaults(p: Parameter): string[] {
  if (p.kind === 'ordinal' || p.kind === 'categorical') {
    const faults: string[] = []
    if (p.values.length === 0) faults.push('has no values')
    if (new Set<number | string>(p.values).size < p.values.length)
      faults.push('lists a value twice')
    if (p.kind === 'ordinal') {
      if (p.values.some((v) => !Number.isFinite(v)))
        faults.push('has a value that is not a finite number')
      if (p.values.some((v, i) => i > 0 && v < p.values[i - 1]!)) faults.push('values must ascend')
    } else if (p.features) {
      const widths = new Set(p.values.map((v) => p.features?.[v]?.length ?? -1))
      if (widths.has(-1))
        faults.push(`has no features for ${p.values.filter((v) => !p.features?.[v]).join(', ')}`)
      else if (widths.size > 1) faults.push('has values with different numbers of features')
      else if (p.values.some((v) => p.features?.[v]?.some((f) => !Number.isFinite(f))))
        faults.push('has a feature that is not a finite number')
    }
    return faults
  }
  const faults: string[] = []
  if (!Number.isFinite(p.min) || !Number.isFinite(p.max))
    faults.push('min and max must be finite numbers')
  else if (p.min > p.max) faults.push(`min ${p.min} exceeds max ${p.max}`)
  if (p.step !== undefined && !(p.step > 0)) faults.push(`step ${p.step} must be positive`)
  if (p.scale === 'log' && p.min <= 0) faults.push(`a log scale needs min > 0, not ${p.min}`)
  if (p.kind === 'int' && ![p.min, p.max, p.step ?? 1].every(Number.isInteger))
    faults.push('min, max and step of an int must be whole numbers')
  return faults
}

/** Lists all faults of a configuration, as messages; empty for a valid one. */
export function validateConfiguration(space: SearchSpace, configuration: Configuration): string[] {
  const faults: string[] = []
  for (const p of space.parameters) {
    const value = configuration[p.name]
    if (value === undefined) faults.push(`${p.name} is missing`)
    else if (!isActive(p, configuration)) {
      if (value !== getDefaultValue(p))
        faults.push(
          `${p.name} = ${value}, but it must be ${getDefaultValue(p)} unless ${p.when?.text}`,
        )
    } else if (!isPermitted(p, value)) faults.push(`${p.name} cannot be ${value}`)
  }
  for (const constraint of space.constraints)
    if (!constraint.holds(configuration)) faults.push(`breaks '${constraint.text}'`)
  return faults
}

function isPermitted(p: Parameter, value: number | string): boolean {
  if (p.kind === 'ordinal') return typeof value === 'number' && p.values.includes(value)
  if (p.kind === 'categorical') return typeof value === 'string' && p.values.includes(value)
  return (
    typeof value === 'number' &&
    value >= p.min &&
    value <= p.max &&
    Math.abs(snap(p, value) - value) <= 1e-9 * Math.max(1, Math.abs(value))
  )
}
