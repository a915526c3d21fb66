/** Undo actions for a failed launch or a stopped predictor: run newest first, each once. */
export class Cleanup {
  private steps: (() => void | Promise<void>)[] = []
  private running: Promise<void> | undefined

  add(step: () => void | Promise<void>): void {
    this.steps.push(step)
  }

  /**
   * Runs every step even when one throws; then rejects with the first error. Calls during or after
   * a run share it.
   */
  run(): Promise<void> {
    this.running ??= this.undo()
    return this.running
  }

  private async undo(): Promise<void> {
    const errors: unknown[] = []
    for (const step of this.steps.reverse()) {
      try {
        await step()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}
