/**
 * Whose turn it is, among several with weights: each comes as often as its weight says, and as
 * evenly as that can be (smooth weighted round robin, as nginx has it). @param weights above 0
 * @returns the index of the next
 */
export function weightedTurns(weights: readonly number[]): () => number {
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const due = weights.map(() => 0)
  return () => {
    let most = 0
    for (let i = 0; i < due.length; i++) {
      due[i] = due[i]! + weights[i]!
      if (due[i]! > due[most]!) most = i
    }
    due[most] = due[most]! - total
    return most
  }
}
