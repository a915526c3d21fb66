/**
 * Every GPU of a fleet drawn: its slices as wide as their part of its memory, who lives there, and
 * how busy by the hour.
 */
import { mean } from 'simple-statistics'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { migProfilesOf } from '../../trials/devices/mig.ts'
import { percent } from '../format.ts'
import { palette } from '../report/charts/chart-options.ts'
import { type Block, heading, paragraph } from '../report/document/blocks.ts'
import { escapeHtml } from '../report/document/html.ts'
import { stepsOfDay } from './over-day.ts'
import { type PackedGpu, type Segment, type Stay, whole } from './packing.ts'
import { turnsOn } from './turn-blocks.ts'

/**
 * What a slice carries that is asked of it, 0-1, in each hour of the day; all replicas of a model
 * share its requests by what they carry, or as they are routed to those of a segment.
 */
export type BusyByHour = (model: string, segment?: Segment) => readonly number[]

/** Sizes in CSS pixels. */
const [width, titleHeight, nameHeight, barHeight, axisHeight, gap] = [960, 26, 34, 52, 18, 4]
const letterWidth = 6.3
/** More are drawn once for all that are alike. */
const mostSingly = 48

export function pictureBlocks(
  gpus: readonly PackedGpu[],
  models: readonly string[],
  headroom: number,
  busyOf: BusyByHour,
): Block[] {
  if (gpus.length === 0) return []
  const numbered = gpus.map((gpu, i) => ({
    gpu,
    number: gpus.slice(0, i + 1).filter(({ kind }) => kind === gpu.kind).length,
  }))
  const steady = models.every((model) => new Set(busyOf(model)).size === 1)
  const all =
    gpus.length <= mostSingly ? numbered.map((one) => ({ ...one, count: 1 })) : onceEach(numbered)
  const kept =
    headroom > 0
      ? ` The dashed line is at ${percent(1 - headroom)}: what is above it is kept free.`
      : ''
  const hours = steady
    ? 'how much of what it carries is asked for'
    : 'how much of what it carries is asked for in each hour of the day'
  return [
    heading(2, gpus.length <= mostSingly ? 'Every GPU' : 'Every GPU, those alike drawn once'),
    paragraph(
      `Slices are as wide as their part of the GPU's memory, those under MPS as their part of its threads. The bars of a slice: ${hours}, all replicas of a model taking its requests in proportion to what they carry.${kept} Beside a slice stands the share of its busiest hour. What is blank is spare.${gpus.some(({ slots }) => slots.some(({ stays, waiting }) => stays || waiting)) ? ' Models that take turns on a slice have colours of their own; pale is who is in memory.' : ''}`,
    ),
    ...all.map(({ gpu, number, count }) =>
      pictureOf(gpu, `${gpu.kind} ${count > 1 ? `× ${count}` : number}`, {
        models,
        headroom,
        busyOf,
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
      one.gpu.slots.map(({ slice, model, segment, ...turns }) => [
        slice,
        model,
        segment?.label,
        turns,
      ]),
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
  readonly busyOf: BusyByHour
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
    const who = slot.model ?? turnsOn(slot)
    return `${slot.slice} ${who === undefined ? 'free' : `${who}, ${percent(Math.max(...busyOn(slot, drawn)))} busy at most`}`
  })
  return {
    kind: 'chart',
    themed: true,
    alt: `${title}: ${said.join('; ')}`,
    svg: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 ${-titleHeight} ${width} ${height + titleHeight}" width="${width}" height="${height + titleHeight}" font-size="12"><text x="0" y="${14 - titleHeight}" font-size="14"><tspan class="name">${escapeHtml(title)}</tspan><tspan class="soft" font-size="12" dx="10">${escapeHtml(busySaid(parts, drawn))}</tspan></text>${boxes.join('')}${unused}</svg>`,
  }
}

/** Of the memory; under MPS, where no part of that is anyone's, of the threads. */
const partOf = (kind: string, { slice, segment }: PackedGpu['slots'][number]): number =>
  segment?.share ??
  (slice === whole
    ? 1
    : (migProfilesOf(findGpu(kind)).find(({ name }) => name === slice)?.memoryFraction ?? 1))

/** Of the whole GPU, by the parts of its memory. */
function busySaid(
  parts: readonly (PackedGpu['slots'][number] & { readonly part: number })[],
  drawn: Drawn,
): string {
  const busy = parts.map((slot) => busyOn(slot, drawn))
  const hours = Array.from({ length: hoursOfDay }, (_, hour) =>
    parts.reduce((sum, { part }, i) => sum + part * busy[i]![hour]!, 0),
  )
  const most = Math.max(...hours)
  const steady = Math.min(...hours) > most - 1e-9
  return steady
    ? `${percent(most)} busy`
    : `${percent(most)} busy at ${hours.indexOf(most)} o'clock, ${percent(mean([...hours]))} over the day`
}

const hoursOfDay = 24
const hourOf = (step: number): number => Math.floor(((step % stepsOfDay) * hoursOfDay) / stepsOfDay)

/** Of what is on it, in each hour of the day. */
function busyOn(
  { model, segment, stays, waiting = [] }: PackedGpu['slots'][number],
  { busyOf }: Drawn,
): readonly number[] {
  if (model !== undefined) return busyOf(model, segment)
  const busy = new Array<number>(hoursOfDay).fill(0)
  for (const stay of stays ?? [])
    for (let step = stay.from; step < stay.to; step++)
      busy[hourOf(step)] = Math.max(
        busy[hourOf(step)]!,
        busyOf(stay.model, stay.segment)[hourOf(step)]!,
      )
  for (const one of waiting)
    for (const [hour, share] of busyOf(one.model, one.segment).entries()) busy[hour]! += share
  return busy
}

/** Several models in turns: who is there when, pale, and how busy, or how busy each makes it. */
function turnsBox(slot: PackedGpu['slots'][number], x: number, wide: number, drawn: Drawn): string {
  const busy = busyOn(slot, drawn)
  const who = turnsOn(slot)!
  const frame = `<rect class="frame" x="${px(x)}" y="${nameHeight}" width="${px(wide)}" height="${barHeight}"/>`
  const there = (slot.stays ?? []).flatMap((stay) =>
    piecesOf(stay).map((piece) => stayShape(stay, piece, x, wide, drawn)),
  )
  const below = new Array<number>(hoursOfDay).fill(0)
  const shared = (slot.waiting ?? []).map(({ model, segment }) => {
    for (const [hour, share] of drawn.busyOf(model, segment).entries()) below[hour]! += share
    return `<path fill="${colourOf(model, drawn)}" d="${stepsOf(below, x, wide)}"/>`
  })
  // The last is the tallest, and stands behind the others.
  const shapes = [...there, ...shared.reverse()].join('')
  return `<g><title>${escapeHtml(`${who} on ${slot.slice}: ${percent(Math.max(...busy))} busy at most`)}</title>${texts(x, wide, who, `${slot.slice}, ${percent(Math.max(...busy))}`)}${shapes}${frame}${hourAxis(x, wide)}</g>`
}

/** Times of the day, one over midnight in two. */
const piecesOf = ({ from, to }: Stay): { readonly from: number; readonly to: number }[] =>
  to <= stepsOfDay
    ? [{ from, to }]
    : [
        { from, to: stepsOfDay },
        { from: 0, to: to - stepsOfDay },
      ]

function stayShape(
  { model, segment }: Stay,
  { from, to }: { readonly from: number; readonly to: number },
  x: number,
  wide: number,
  drawn: Drawn,
): string {
  const at = (step: number) => x + (wide * step) / stepsOfDay
  const bottom = nameHeight + barHeight
  const colour = colourOf(model, drawn)
  const busy = drawn.busyOf(model, segment)
  const steps = Array.from(
    { length: to - from },
    (_, i) =>
      `V${px(bottom - Math.min(1, busy[hourOf(from + i)]!) * barHeight)}H${px(at(from + i + 1))}`,
  )
  const pale = `<rect fill="${colour}" fill-opacity="0.2" x="${px(at(from))}" y="${nameHeight}" width="${px(at(to) - at(from))}" height="${barHeight}"/>`
  return `${pale}<path fill="${colour}" d="M${px(at(from))} ${bottom}${steps.join('')}V${bottom}Z"/>`
}

const colourOf = (model: string, { models }: Drawn): string =>
  colours[models.indexOf(model) % colours.length]!

function boxOf(slot: PackedGpu['slots'][number], x: number, wide: number, drawn: Drawn): string {
  const { slice, model, segment } = slot
  const whichOf =
    segment !== undefined && segment.gpus > 1
      ? `, one of the ${segment.gpus} GPUs of a replica`
      : ''
  if (model === undefined)
    return turnsOn(slot) === undefined
      ? nothing(x, wide, 'free', slice)
      : turnsBox(slot, x, wide, drawn)
  const busy = drawn.busyOf(model, segment)
  const title = `${model} on ${slice}${segment?.label ? ` (${segment.label})` : ''}: ${percent(Math.max(...busy))} busy at most, ${percent(mean([...busy]))} on the mean${whichOf}`
  const kept =
    drawn.headroom > 0 ? line(x, x + wide, nameHeight + drawn.headroom * barHeight, 'dash') : ''
  const frame = `<rect class="frame" x="${px(x)}" y="${nameHeight}" width="${px(wide)}" height="${barHeight}"/>`
  const colour = colourOf(model, drawn)
  return `<g><title>${escapeHtml(title)}</title>${texts(x, wide, model, `${slice}, ${percent(Math.max(...busy))}`)}${frame}<path fill="${colour}" d="${stepsOf(busy, x, wide)}"/>${kept}${drawn.steady ? '' : hourAxis(x, wide)}</g>`
}

/** From hour to hour, as one shape. */
function stepsOf(busy: readonly number[], x: number, wide: number): string {
  const bottom = nameHeight + barHeight
  const steps = busy.map(
    (share, hour) =>
      `V${px(bottom - Math.min(1, share) * barHeight)}H${px(x + (wide * (hour + 1)) / busy.length)}`,
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
