/** The one switch of all mutants within a worker: which is on, which were reached. */

/**
 * Thrown when a mutant is passed far more often than the code is without it: it goes round and
 * round.
 */
class Endless extends Error {}

export class Switch {
  #on = 0
  #left = 0
  #reached: Uint32Array

  constructor(count: number) {
    this.#reached = new Uint32Array(count + 1)
  }

  /** Whether the mutant of this number, from 1, is on. */
  readonly switched = (number: number): boolean => {
    this.#reached[number]!++
    if (number !== this.#on) return false
    if (this.#left-- <= 0) throw new Endless(`mutant ${number} is passed without end`)
    return true
  }

  /** @param passes times that the mutant may be passed. */
  turnOn(number: number, passes = Infinity): void {
    this.#on = number
    this.#left = passes
  }

  turnOff(): void {
    this.#on = 0
  }

  /** How often each mutant was passed since the last call, by number. */
  takeReached(): Uint32Array {
    const reached = this.#reached
    this.#reached = new Uint32Array(reached.length)
    return reached
  }
}

declare global {
  /** The instrumented sources find it by this name. */
  var mutation: Switch
}
