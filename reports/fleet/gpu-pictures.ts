/** Every GPU of a fleet as a picture: its slices, the models on them, and their load by hour. */
import { mean } from 'simple-statistics'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { migProfilesOf } from '../../trials/devices/mig.ts'
import { percent } from '../format.ts'
import { palette } from '../report/charts/chart-options.ts'
import { type Block, heading, paragraph } from '../report/document/blocks.ts'
import { escapeHtml } from '../report/document/html.ts'
import { hoursPerDay } from './demand-by-hour.ts'
import { type PackedGpu, type Slot, whole } from './packing.ts'

/** Requests over capacity of a model, 0-1, in each hour of the day: the same on all its replicas. */
type LoadByHour = (model: string) => readonly number[]

/** Sizes in CSS pixels. */
const [width, titleHeight, nameHeight, barHeight, axisHeight, gap] = [960, 26, 34, 52, 18, 4]
const letterWidth = 6.3
/** With more GPUs, those that are alike are drawn once. */
const maxDrawnSingly = 48

export function pictureGpus(
  gpus: readonly PackedGpu[],
  models: readonly string[],
  headroom: number,
  loadOf: LoadByHour,
): Block[] {
  if (gpus.length === 0) return []
  const numbered = gpus.map((gpu, i) => ({
    gpu,
    number: gpus.slice(0, i + 1).filter(({ kind }) => kind === gpu.kind).length,
  }))
  const steady = models.every((model) => new Set(loadOf(model)).size === 1)
  const all =
    gpus.length <= maxDrawnSingly
      ? numbered.map((one) => ({ ...one, count: 1 }))
      : onceEach(numbered)
  const kept =
    headroom > 0 ? ` The dashed line is at ${percent(1 - headroom)}: the headroom is above it.` : ''
  const bars = steady ? 'how busy it is' : 'how busy it is in each hour of the day'
  return [
    heading(2, gpus.length <= maxDrawnSingly ? 'Every GPU' : 'Every GPU, those alike drawn once'),
    paragraph(
      `Slices are as wide as their part of the GPU's memory, shares under MPS as their part of its threads. The bars of a slice: ${bars}, as a part of its capacity.${kept} Beside a slice stands how busy its busiest hour is. What is blank is free.`,
    ),
    ...all.map(({ gpu, number, count }) =>
      pictureOf(gpu, `${gpu.kind} ${count > 1 ? `× ${count}` : number}`, {
        models,
        headroom,
        loadOf,
        steady,
      }),
    ),
  ]
}

interface Numbered {
  readonly gpu: PackedGpu
  readonly number: number
}

function onceEach(numbered: readonly Numbered[]): (Numbered & { readonly count: number })[] {
  const alike = new Map<string, { gpu: PackedGpu; number: number; count: number }>()
  for (const one of numbered) {
    const key = JSON.stringify([
      one.gpu.kind,
      one.gpu.slots.map(({ slice, model, segment }) => [slice, model, segment?.label]),
    ])
    const known = alike.get(key) ?? { ...one, count: 0 }
    known.count++
    alike.set(key, known)
  }
  return [...alike.values()]
}

interface Drawn {
  readonly models: readonly string[]
  readonly headroom: number
  readonly loadOf: LoadByHour
  readonly steady: boolean
}

function pictureOf(gpu: PackedGpu, title: string, drawn: Drawn): Block {
  const parts = gpu.slots.map((slot) => ({ ...slot, part: partOf(gpu.kind, slot) }))
  const taken = parts.reduce((sum, { part }) => sum + part, 0)
  let at = 0
  const boxes = parts.map((slot) => {
    const [x, wide] = [at * width, slot.part * width - gap]
    at += slot.part
    return boxOf(slot, x, wide, drawn)
  })
  const unused =
    1 - taken > 1e-6
      ? nothing(
          taken * width,
          (1 - taken) * width - gap,
          parts.some(({ segment }) => segment?.share) ? 'free' : 'no slice fits',
          '',
        )
      : ''
  const height = nameHeight + barHeight + axisHeight
  const said = parts.map((slot) => {
    const { slice, model } = slot
    return `${slice} ${model === undefined ? 'free' : `${model}, ${percent(Math.max(...drawn.loadOf(model)))} busy at most`}`
  })
  return {
    kind: 'chart',
    themed: true,
    alt: `${title}: ${said.join('; ')}`,
    svg: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 ${-titleHeight} ${width} ${height + titleHeight}" width="${width}" height="${height + titleHeight}" font-size="12"><text x="0" y="${14 - titleHeight}" font-size="14"><tspan class="name">${escapeHtml(title)}</tspan><tspan class="soft" font-size="12" dx="10">${escapeHtml(formatLoad(parts, drawn))}</tspan></text>${boxes.join('')}${unused}</svg>`,
  }
}

/** Of the memory; under MPS, where no part of that is anyone's, of the threads. */
const partOf = (kind: string, { slice, segment }: Slot): number =>
  segment?.share ??
  (slice === whole
    ? 1
    : (migProfilesOf(findGpu(kind)).find(({ name }) => name === slice)?.memoryFraction ?? 1))

/** Of the whole GPU, by the parts of its memory. */
function formatLoad(parts: readonly (Slot & { readonly part: number })[], drawn: Drawn): string {
  const loads = parts.map(({ model }) => (model === undefined ? undefined : drawn.loadOf(model)))
  const hours = Array.from({ length: hoursPerDay }, (_, hour) =>
    parts.reduce((sum, { part }, i) => sum + part * (loads[i]?.[hour] ?? 0), 0),
  )
  const most = Math.max(...hours)
  const steady = Math.min(...hours) > most - 1e-9
  return steady
    ? `${percent(most)} busy`
    : `${percent(most)} busy at ${hours.indexOf(most)} o'clock, ${percent(mean([...hours]))} over the day`
}

const colourOf = (model: string, { models }: Drawn): string =>
  colours[models.indexOf(model) % colours.length]!

function boxOf(slot: Slot, x: number, wide: number, drawn: Drawn): string {
  const { slice, model, segment } = slot
  const whichOf =
    segment !== undefined && segment.gpus > 1
      ? `, one of the ${segment.gpus} GPUs of a replica`
      : ''
  if (model === undefined) return nothing(x, wide, 'free', slice)
  const load = drawn.loadOf(model)
  const title = `${model} on ${slice}${segment?.label ? ` (${segment.label})` : ''}: ${percent(Math.max(...load))} busy at most, ${percent(mean([...load]))} on average${whichOf}`
  const kept =
    drawn.headroom > 0 ? line(x, x + wide, nameHeight + drawn.headroom * barHeight, 'dash') : ''
  const frame = `<rect class="frame" x="${px(x)}" y="${nameHeight}" width="${px(wide)}" height="${barHeight}"/>`
  const colour = colourOf(model, drawn)
  return `<g><title>${escapeHtml(title)}</title>${texts(x, wide, model, `${slice}, ${percent(Math.max(...load))}`)}${frame}<path fill="${colour}" d="${traceLoad(load, x, wide)}"/>${kept}${drawn.steady ? '' : hourAxis(x, wide)}</g>`
}

/** One shape over all hours. */
function traceLoad(load: readonly number[], x: number, wide: number): string {
  const bottom = nameHeight + barHeight
  const steps = load.map(
    (share, hour) =>
      `V${px(bottom - Math.min(1, share) * barHeight)}H${px(x + (wide * (hour + 1)) / load.length)}`,
  )
  return `M${px(x)} ${bottom}${steps.join('')}V${bottom}Z`
}

/** Black is no colour on a dark page. */
const colours = palette.filter((colour) => colour !== '#000000')

/** Where nothing runs. */
const nothing = (x: number, wide: number, above: string, below: string): string =>
  `<g><title>${escapeHtml(`${below} ${above}`.trim())}</title>${texts(x, wide, above, below, 'soft')}<rect class="frame dash" x="${px(x)}" y="${nameHeight}" width="${px(Math.max(0, wide))}" height="${barHeight}"/></g>`

const line = (from: number, to: number, y: number, kind: string): string =>
  `<line class="frame ${kind}" x1="${px(from)}" x2="${px(to)}" y1="${px(y)}" y2="${px(y)}"/>`

/** Every sixth hour, where there is room for its number. */
function hourAxis(x: number, wide: number): string {
  const y = nameHeight + barHeight
  return [6, 12, 18]
    .map((hour) => {
      const at = px(x + (wide * hour) / 24)
      const number =
        wide > 150 || hour === 12
          ? `<text class="soft" x="${at}" y="${y + 14}" text-anchor="middle" font-size="10">${hour}</text>`
          : ''
      return `<line class="frame" x1="${at}" x2="${at}" y1="${y}" y2="${y + 4}"/>${number}`
    })
    .join('')
}

const texts = (x: number, wide: number, above: string, below: string, kind = 'name'): string =>
  `<text x="${px(x)}" y="12" class="${kind}">${cutTo(above, wide)}</text><text class="soft" x="${px(x)}" y="27">${cutTo(below, wide)}</text>`

function cutTo(text: string, wide: number): string {
  const letters = Math.max(1, Math.floor(wide / letterWidth))
  return escapeHtml(text.length <= letters ? text : `${text.slice(0, letters - 1)}…`)
}

const px = (value: number): string => String(Math.round(value * 10) / 10)
