package arch

import (
	"go/ast"
	"go/token"
)

// sleeps finds where a file waits for nothing but time: time.Sleep, or a receive from a timer outside a
// select that waits for something else too.
func sleeps(tree *ast.File) (found []token.Pos) {
	bounds := map[ast.Node]bool{} // receives that only bound the wait of their select
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				if c := clause.(*ast.CommClause); c.Comm != nil && len(n.Body.List) > 1 {
					ast.Inspect(c.Comm, func(receive ast.Node) bool { bounds[receive] = true; return true })
				}
			}
		case *ast.SelectorExpr:
			if isTime(n, "Sleep") {
				found = append(found, n.Pos())
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !bounds[n] && fromTimer(n.X) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// fromTimer reports whether x is the channel of a timer made on the spot.
func fromTimer(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return fromTimer(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name == "C" && fromTimer(x.X)
	case *ast.CallExpr:
		return isTime(x.Fun, "After", "Tick", "NewTimer", "NewTicker")
	}
	return false
}

// isTime reports whether x is one of these functions of package time.
func isTime(x ast.Expr, names ...string) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	if !ok || of.Name != "time" {
		return false
	}
	for _, name := range names {
		if s.Sel.Name == name {
			return true
		}
	}
	return false
}
