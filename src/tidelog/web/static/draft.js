// A scenario as something to change: a head and steps, each a command and the lines of the comment above it.
//
// Every change makes a new text, and the text is all that is ever played, shared or saved.

export class Draft {
  constructor(head, steps) {
    this.head = head;
    this.steps = steps;
  }

  // A recording lists exactly what its text says.
  static of(recording) {
    const steps = recording.steps.slice(1).map(({ command, source }) => ({ command, comment: source ?? [] }));
    return new Draft(recording.head.map((line) => line.replace(/ generation=\S+/, "")), steps);
  }

  get name() {
    return this.head[0].split(/\s+/)[1];
  }

  // A story of one's own: another name, and no longer what its first author expected of it.
  owned() {
    const [first, ...rest] = this.head;
    const name = /-mine$/.test(this.name) ? this.name : `${this.name}-mine`;
    return new Draft([first.replace(/\S+$/, name), ...rest.filter((line) => !line.startsWith("expect"))], this.steps);
  }

  // Commands after the first `at` steps. The rest of the story goes on, or is left out.
  insert(at, commands, { keepRest = true } = {}) {
    const added = commands.map((command) => ({ command, comment: [], added: true }));
    const rest = keepRest ? this.steps.slice(at) : [];
    return new Draft(this.head, [...this.steps.slice(0, at), ...added, ...rest]);
  }

  remove(at) {
    const steps = this.steps.slice();
    const [gone] = steps.splice(at, 1);
    // A comment tells of the steps below it, too: it stays.
    if (gone.comment.length && steps[at] && !steps[at].comment.length) steps[at] = { ...steps[at], comment: gone.comment };
    return new Draft(this.head, steps);
  }

  endAfter(at) {
    return new Draft(this.head, this.steps.slice(0, at));
  }

  toString() {
    const lines = [...this.head, ""];
    for (const { command, comment } of this.steps) {
      if (comment.length) lines.push("", ...comment);
      lines.push(command);
    }
    return `${lines.join("\n")}\n`;
  }
}
