/** What one case of a measure came to, by the name of what was read. */
export type Readings = Readonly<Record<string, number>>

/** Readings by the name of the case: one seed of one server, table or job. */
export type Cases = Readonly<Record<string, Readings>>

/** By the part's name. */
export type GateFigures = Readonly<Record<string, Cases>>

/** A piece of a part that one worker does alone. */
export interface Piece {
  readonly part: string
  /** By which the part finds it. */
  readonly index: number
}

/** One line of the gate's table. */
export interface Row {
  readonly measure: string
  readonly baseline: string
  readonly now: string
  readonly allowed: string
  readonly verdict: 'passed' | 'worse' | 'shown' | 'skipped: machine busy'
  /** Cases that it is of. */
  readonly cases: number
}

/** One part of the gate: its cases, and what may come of them. */
export interface Part {
  readonly name: string
  /** CPU seconds that a piece takes on a quiet core, for the ETA and the order of work. */
  readonly pieceSeconds: number
  readonly pieces: number
  /** Does a piece of it. The same readings for an index, on any machine. */
  readonly run: (index: number) => Promise<Cases>
  /** Both have the same cases. */
  readonly compare: (baseline: Cases, now: Cases) => Row[]
}
