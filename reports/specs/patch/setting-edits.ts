/** Tuned variables and arguments of the server, set wherever its container has them. */
import type { Serving } from '../serving.ts'
import { type Edit, type Edits, joinEdits } from './edits.ts'
import type { ServerContainer } from './find-container.ts'
import {
  type ArgumentText,
  createReplacement,
  type FlagSwitch,
  type FlagValue,
  findAssignments,
  findSwitches,
  findValues,
  findVariable,
  stripQuotes,
} from './flag-text.ts'
import { countPodsPerReplica } from './resource-edits.ts'
import type { Span } from './text-edit.ts'
import {
  type FlagSetting,
  isSame,
  listTunedSettings,
  type VariableSetting,
} from './tuned-settings.ts'
import { getValueAt, listAt, type Path, type YamlValue } from './yaml-values.ts'

/**
 * Changes variables and arguments where they stand: as two words, with `=`, in the text of a shell,
 * or in a variable that the text refers to. Adds missing variables if the server is known to read
 * them. Everything without a place is reported.
 */
export function listSettingEdits(target: ServerContainer, serving: Serving): Edits {
  const settings = listTunedSettings(serving, target.server, countPodsPerReplica(target) === 1)
  const change = new ContainerChange(target)
  const unappliedValues = [
    ...settings.flags.flatMap((flag) => setFlag(change, flag)),
    ...settings.variables.flatMap((variable) =>
      setVariable(change, variable, settings.readsVariables, serving),
    ),
    ...settings.contrary.flatMap(([setting, flag]) => {
      const conflictingValues = findValues(change.texts, flag).map(
        ({ written }) => `--${flag.names[0]} ${written}`,
      )
      const [conflicting] = [
        ...conflictingValues,
        ...findSwitches(change.texts, flag).map(({ written }) => written),
      ]
      return conflicting === undefined
        ? []
        : [`${setting}: the container has ${conflicting}: remove it`]
    }),
    ...settings.elsewhere,
  ]
  return joinEdits([{ edits: change.listEdits(), unappliedValues, conflicts: [] }])
}

/** Gets the text around a value, for messages. */
const getLine = ({ text, start, end }: FlagValue): string =>
  text.content.length < 80 ? text.content : text.content.slice(Math.max(0, start - 40), end)

/** The edits of one container, so that two of one text become one. */
class ContainerChange {
  readonly texts: readonly ArgumentText[]
  readonly variables: readonly YamlValue[]
  readonly #spans = new Map<string, { readonly text: ArgumentText; readonly spans: Span[] }>()
  readonly #added: YamlValue[] = []

  constructor(readonly target: ServerContainer) {
    this.variables = listAt(target.value, ['env'])
    const argumentTexts = ['command', 'args'].flatMap((field): ArgumentText[] => {
      const words = getValueAt(target.value, [field])
      if (typeof words === 'string') return [{ path: [field], content: words, isArgument: false }]
      return listAt(target.value, [field]).map((word, i) => ({
        path: [field, i],
        content: String(word),
        isArgument: true,
      }))
    })
    this.texts = [...argumentTexts, ...this.variables.flatMap((_, i) => this.#listValueText(i))]
  }

  /** The value of a variable as text; empty if the manifest takes it from elsewhere. */
  #listValueText(index: number): ArgumentText[] {
    const value = getValueAt(this.variables[index], ['value'])
    if (value === undefined || value === null) return []
    return [{ path: ['env', index, 'value'], content: String(value), isArgument: false }]
  }

  getVariableText(index: number): ArgumentText | undefined {
    return this.#listValueText(index)[0]
  }

  findVariableIndexes(isNamed: (name: string) => boolean): number[] {
    return this.variables.flatMap((one, i) =>
      isNamed(String(getValueAt(one, ['name']))) ? [i] : [],
    )
  }

  /** Returns false if another value has been put there already. */
  replace(text: ArgumentText, span: Span): boolean {
    const key = text.path.join('.')
    const { spans } = this.#spans.get(key) ?? { spans: [] }
    const overlapping = spans.find(({ start, end }) => start < span.end && span.start < end)
    if (overlapping) return overlapping.insert === span.insert
    this.#spans.set(key, { text, spans: [...spans, span] })
    return true
  }

  replaceAll(text: ArgumentText, value: string): boolean {
    return this.replace(text, { start: 0, end: text.content.length, insert: value })
  }

  addVariable(entry: YamlValue): void {
    this.#added.push(entry)
  }

  listEdits(): Edit[] {
    const { object, path } = this.target
    const changed = [...this.#spans.values()].flatMap(({ text, spans }): Edit[] => {
      const fullPath: Path = [...path, ...text.path]
      const value = addSpans(text.content, spans)
      const isWhole = spans.length === 1 && spans[0]!.end - spans[0]!.start === text.content.length
      if (getValueAt(object.value, fullPath) === value) return []
      return [{ object, path: fullPath, value, ...(!isWhole && { spans }) }]
    })
    const added = this.#added.map(
      (value, i): Edit => ({ object, path: [...path, 'env', this.variables.length + i], value }),
    )
    return [...changed, ...added]
  }
}

const addSpans = (content: string, spans: readonly Span[]): string =>
  [...spans]
    .sort((a, b) => b.start - a.start)
    .reduce(
      (text, { start, end, insert }) => text.slice(0, start) + insert + text.slice(end),
      content,
    )

/** Returns why the flag could not be set; empty if it was. */
function setFlag(change: ContainerChange, flag: FlagSetting): string[] {
  const { value } = flag
  if (value === undefined) return setSwitch(change, flag)
  const flagValues = findValues(change.texts, flag)
  const problems = flagValues.flatMap((one) => setValue(change, one, value))
  const variables = change.findVariableIndexes((name) =>
    flag.names.some((flagName) => isNamedAfter(name, flagName)),
  )
  const inVariables = variables.flatMap((i) => setWholeVariable(change, i, value))
  const placeCount = flagValues.length + variables.length
  if (placeCount === 0)
    return flag.isOptional ? [] : [`${flag.text}: the container has no such argument: add it`]
  return [...problems, ...inVariables].map((why) => `${flag.text}: ${why}`)
}

/**
 * Whether a variable is named after a flag: images take --max-num-seqs from MAX_NUM_SEQS or
 * VLLM_MAX_NUM_SEQS. Flags of one or two letters are too short to tell.
 */
const isNamedAfter = (variable: string, flag: string): boolean =>
  flag.length > 2 &&
  isSame(variable.replace(/^(VLLM|SGLANG|SGL|TGI|TRTLLM|ENGINE|SERVER)_/, ''), flag)

function setValue(
  change: ContainerChange,
  flagValue: FlagValue,
  value: string,
  depth = 0,
): string[] {
  const variable = findVariable(flagValue.written)
  if (variable === undefined) {
    if (isSameValue(stripQuotes(flagValue.written), value)) return []
    const isSet = change.replace(flagValue.text, createReplacement(flagValue, value))
    return isSet ? [] : [`${getLine(flagValue)} is shared with another value`]
  }
  const { name, hasDefault } = variable
  const indexes = change.findVariableIndexes((other) => other === name)
  if (indexes.length > 0) return indexes.flatMap((i) => setWholeVariable(change, i, value))
  const assigned = depth > 2 ? [] : findAssignments(change.texts, name)
  if (assigned.length > 0) return assigned.flatMap((one) => setValue(change, one, value, depth + 1))
  const isFromElsewhere = listAt(change.target.value, ['envFrom']).length > 0
  if (hasDefault && !isFromElsewhere)
    return change.replace(flagValue.text, createReplacement(flagValue, value))
      ? []
      : ['it is set twice']
  return [`it is written as ${flagValue.written}, which the container does not set`]
}

function setWholeVariable(change: ContainerChange, index: number, value: string): string[] {
  const text = change.getVariableText(index)
  const name = String(getValueAt(change.variables[index], ['name']))
  if (text === undefined) return [`the manifest takes ${name} from elsewhere (valueFrom)`]
  if (isSameValue(text.content, value) && isText(change, index)) return []
  return change.replaceAll(text, value) ? [] : [`${name} is shared with another value`]
}

/** Whether a variable's value is a text, the only kind that Kubernetes accepts. */
const isText = (change: ContainerChange, index: number): boolean =>
  typeof getValueAt(change.variables[index], ['value']) === 'string'

/** '0.90' and '0.9' are the same. */
const isSameValue = (current: string, requested: string): boolean =>
  current === requested ||
  (current.trim() !== '' && !Number.isNaN(Number(current)) && Number(current) === Number(requested))

/** '--enable-x' and '--no-enable-x' exclude each other. */
function setSwitch(change: ContainerChange, flag: FlagSetting): string[] {
  const [name] = flag.names
  const isOn = !name!.startsWith('no-')
  const positive = isOn ? name! : name!.slice('no-'.length)
  const positiveFlag = { ...flag, names: [positive] }
  const switches = findSwitches(change.texts, { ...flag, names: [positive, `no-${positive}`] })
  if (switches.length === 0) return [`${flag.text}: the container has no such argument: add it`]
  return switches.flatMap((one) => {
    const isPositive =
      findSwitches([{ ...one.text, content: one.written }], positiveFlag).length > 0
    const span = one.value
      ? findBoolSpan(one.value, isOn === isPositive)
      : findWordSpan(one, isOn, isPositive)
    if (span === undefined) return []
    const text = one.value?.text ?? one.text
    return change.replace(text, span) ? [] : [`${flag.text}: it is set twice`]
  })
}

function findBoolSpan({ start, end, written }: FlagValue, isTrue: boolean): Span | undefined {
  if ((written.toLowerCase() === 'true') === isTrue) return undefined
  const word = String(isTrue)
  // Keep the case of the written value: 'True' → 'False'.
  return {
    start,
    end,
    insert: /^[TF]/.test(written) ? word[0]!.toUpperCase() + word.slice(1) : word,
  }
}

function findWordSpan(
  { start, end, written }: FlagSwitch,
  isOn: boolean,
  isPositive: boolean,
): Span | undefined {
  if (isOn === isPositive) return undefined
  // '--no-enable-x' ↔ '--enable-x'; '--no_enable_x' ↔ '--enable_x'.
  const insert = isOn
    ? written.replace(/^(--?)no[-_]/, '$1')
    : written.replace(
        /^(--?)(\w+)([-_]?)/,
        (_, dashes, word, blank) => `${dashes}no${blank || '-'}${word}${blank}`,
      )
  return { start, end, insert }
}

/**
 * Whether a parameter is set in the container's resources: cores, memory, or a GPU that is not
 * shared.
 */
const isResource = (name: string, value: string): boolean =>
  ['cpuCores', 'memoryMiB', 'gpu', 'gpus', 'migProfile'].some((one) => isSame(one, name)) ||
  (isSame('gpuMemoryPercent', name) && value === '100')

/** Returns why the variable could not be set; empty if it was. */
function setVariable(
  change: ContainerChange,
  { name, value }: VariableSetting,
  isRead: boolean,
  { deployed }: Serving,
): string[] {
  const indexes = change.findVariableIndexes((other) => other === name)
  if (indexes.length > 0)
    return indexes
      .flatMap((i) => setWholeVariable(change, i, value))
      .map((why) => `${name} = ${value}: ${why}`)
  if (isRead) {
    change.addVariable({ name, value })
    return []
  }
  if (isResource(name, value)) return []
  const why =
    deployed.server === 'builtin'
      ? 'this container is not the built-in predictor that was measured'
      : 'it is unknown whether this container reads it'
  return [`${name} = ${value}: ${why}`]
}
